"""Downstream tasks: labelled sentences, split so that no sentence stands in two splits."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.languages.sentences import Sentences


@dataclass(frozen=True)
class LabelledSentences:
    """Sentences, their labels, and the exact posterior that the labels come from.

    `labels[i]` is the argmax of `posterior[i]`, a law over the task's classes (spec 2).
    """

    sentences: Sentences
    labels: Int[Tensor, " n"]
    posterior: Float[Tensor, "n k"]

    def __len__(self) -> int:
        return len(self.sentences)

    def __getitem__(self, rows: Tensor | slice) -> "LabelledSentences":
        return LabelledSentences(self.sentences[rows], self.labels[rows], self.posterior[rows])


@runtime_checkable
class Task(Protocol):
    """A classification of sentences."""

    @property
    def name(self) -> str:
        """A short name, for example 'prefix-16'."""
        ...

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the k labels."""
        ...

    def sample(self, n: int, generator: torch.Generator) -> LabelledSentences:
        """Draw n independent sentences that the task is defined on, with their labels."""
        ...


@dataclass(frozen=True)
class TaskSplits:
    """Train, validation and test examples; no sentence stands in two of them."""

    train: LabelledSentences
    validation: LabelledSentences
    test: LabelledSentences


def most_probable(posterior: Float[Tensor, "n k"]) -> Int[Tensor, " n"]:
    """The argmax of each law; of equal ones the first, which rounding must not decide.

    >>> most_probable(torch.tensor([[0.2, 0.4, 0.4 + 1e-15]], dtype=torch.float64)).tolist()
    [1]
    """
    near = posterior >= posterior.amax(1, keepdim=True) * (1 - 1e-12)
    return near.int().argmax(1)
