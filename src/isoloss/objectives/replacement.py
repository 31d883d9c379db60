"""What a model sees where a word is to be predicted."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.objectives.tokens import FIRST_WORD, MASK


@runtime_checkable
class Replacement(Protocol):
    """A frozen dataclass of numbers."""

    def replace(self, tokens: Int[Tensor, " m"], generator: torch.Generator) -> Int[Tensor, " m"]:
        """What is shown instead of these tokens."""
        ...


@dataclass(frozen=True)
class AlwaysMask:
    """[MASK], always.

    >>> AlwaysMask().replace(torch.tensor([5, 6]), torch.Generator()).tolist()
    [2, 2]
    """

    def replace(self, tokens: Int[Tensor, " m"], generator: torch.Generator) -> Int[Tensor, " m"]:  # noqa: ARG002
        """See `Replacement.replace`."""
        return torch.full_like(tokens, MASK)


@dataclass(frozen=True)
class BertReplacement:
    """BERT's 80/10/10 (Devlin et al. 2019, A.1): [MASK], a random word, or the word itself.

    A random word is uniform over the language's `words`, the word itself among them, as in BERT. Raises
    BadInput for a word that is none of them.
    """

    words: int
    masked: float = 0.8
    random: float = 0.1

    def __post_init__(self) -> None:
        if self.words < 1 or min(self.masked, self.random) < 0 or self.masked + self.random > 1:
            raise BadInput(
                f"{self} makes no sense; give the number of the language's words, and two shares of at "
                "least 0 that are together at most 1"
            )

    def replace(self, tokens: Int[Tensor, " m"], generator: torch.Generator) -> Int[Tensor, " m"]:
        """See `Replacement.replace`."""
        if len(tokens) and int(tokens.max()) >= self.words + FIRST_WORD:
            raise BadInput(
                f"there is a word number {int(tokens.max()) - FIRST_WORD}, but the objective was made for "
                f"{self.words} words; make it for the language's own number"
            )
        uniform = torch.rand(len(tokens), generator=generator, dtype=torch.float64)
        words = torch.randint(self.words, (len(tokens),), generator=generator) + FIRST_WORD
        shown = words.where(uniform < self.masked + self.random, tokens)
        return shown.masked_fill(uniform < self.masked, MASK)
