"""What pre-training needs of where its sentences come from."""

from typing import Protocol, runtime_checkable

import torch

from isoloss.languages.sentences import Sentences


@runtime_checkable
class SentenceSource(Protocol):
    """Sentences without end; every `Language` is one, and so is a text, whose laws nobody knows."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The c words; a word's number is its place here."""
        ...

    @property
    def maximum_length(self) -> int:
        """The most words a sentence can have."""
        ...

    @property
    def digest(self) -> str:
        """A hexadecimal name of the source's whole content: equal sources have equal digests."""
        ...

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        """Draw n independent sentences, padded to `maximum_length`.

        The draws do not depend on how calls are split: 5 then 5 sentences are the 10 of one call.
        """
        ...
