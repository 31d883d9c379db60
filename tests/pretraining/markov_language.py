"""A small language for tests: words follow one another by a Markov chain, lengths vary."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from isoloss.languages.sentences import PADDING, Sentences
from isoloss.languages.task import Task


@dataclass(frozen=True)
class MarkovLanguage:
    """Word 0 or 1 first, equally likely; then the same word again with probability `stay`."""

    stay: float = 0.9
    shortest: int = 5
    maximum_length: int = 6

    @property
    def vocabulary(self) -> tuple[str, ...]:
        return ("heads", "tails")

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(self).encode()).hexdigest()

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        # A row of uniforms per sentence, so that 5 and 5 sentences are the 10 of one call.
        uniforms = torch.rand(n, self.maximum_length + 1, generator=generator, dtype=torch.float64)
        flips = (uniforms[:, 1:] >= self.stay).long()
        flips[:, 0] = uniforms[:, 1] >= 0.5
        ids = flips.cumsum(1) % 2
        choices = self.maximum_length - self.shortest + 1
        lengths = self.shortest + (uniforms[:, 0] * choices).long()
        past = torch.arange(self.maximum_length) >= lengths[:, None]
        return Sentences(ids.masked_fill(past, PADDING), lengths)

    def masked_log_probabilities(self, sentences: Sentences) -> Tensor:
        raise NotImplementedError

    def next_log_probabilities(self, sentences: Sentences) -> Tensor:
        raise NotImplementedError

    def log_probability(self, sentences: Sentences) -> Tensor:
        raise NotImplementedError

    def tasks(self) -> Sequence[Task]:
        return ()
