"""What pre-training, and the exact loss, need of an objective."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.languages.language import Language
from isoloss.languages.sentences import Sentences
from isoloss.objectives.batch import Batch, Objective


@runtime_checkable
class PretrainingObjective(Objective, Protocol):
    """An objective that also chooses what is predicted of fresh sentences.

    A frozen dataclass of numbers, strings and such dataclasses: part of a run's digest.
    """

    def draw(self, sentences: Sentences, generator: torch.Generator) -> Batch:
        """The predictions that these sentences are trained on; row i of the batch is sentence i.

        But for `ManyMasksObjective` with copies, where it is not: measure with `once_each` of it.
        """
        ...


@runtime_checkable
class ExactObjective(Objective, Protocol):
    """An objective all of whose predictions have an exact distribution in every language.

    Where something is drawn for a sentence, its number among those measured settles it: `first` is that of
    the first sentence handed over.
    """

    @property
    def quantity(self) -> str:
        """How the names of its records begin."""
        ...

    def every_prediction(self, sentences: Sentences, first: int = 0) -> Batch:
        """Each sentence's predictions, in sentence and then position order, however many rows they take."""
        ...

    def predictions(self, sentences: Sentences) -> Int[Tensor, " n"]:
        """How many predictions each sentence has."""
        ...

    def log_probabilities(
        self, language: Language, sentences: Sentences, first: int = 0
    ) -> Float[Tensor, "m k"]:
        """Exact log-probabilities of each prediction's k outcomes, in the same order, in nats, float64."""
        ...

    def outcomes(self, scores: Float[Tensor, "m v"]) -> Float[Tensor, "m k"]:
        """Of a model's v tokens those that stand for the k outcomes, in the distribution's order."""
        ...
