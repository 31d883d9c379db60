"""Accuracy of a linear probe on features that are first standardised or projected to a common dimension."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.languages.task import TaskSplits
from isoloss.measurements.linear_probe import linear_probe
from isoloss.measurements.quantities.probe import ProbeQuantity, accuracy_columns, accuracy_names, accuracy_of
from isoloss.measurements.quantity import Columns, Measurement, Subject
from isoloss.measurements.sentence_features import gaussian_projection, sentence_features
from isoloss.objectives.batch import PretrainingObjective
from isoloss.progress import Progress
from isoloss.results.record import Record

Features = tuple[Float[Tensor, "n D"], Float[Tensor, "n_test D"]]
"""Of the training and of the test sentences."""


@runtime_checkable
class FeatureAdaptation(Protocol):
    """A frozen dataclass."""

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """The features [n, D] and [n_test, D] as the probe reads them; statistics are fitted on `train`."""
        ...


@dataclass(frozen=True)
class AsTheyAre:
    """The paper's probe: neither centred nor scaled."""

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """See `FeatureAdaptation`."""
        return train, test


@dataclass(frozen=True)
class Standardised:
    """Every feature has mean 0 and deviation 1 on the training sentences; a constant one becomes 0."""

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """See `FeatureAdaptation`.

        >>> seen, unseen = torch.tensor([[0.0, 3.0], [2.0, 3.0]]), torch.tensor([[5.0, 3.0]])
        >>> train, test = Standardised().adapted(seen, unseen)
        >>> train.tolist(), test.tolist()
        ([[-1.0, 0.0], [1.0, 0.0]], [[4.0, 0.0]])
        """
        mean, deviation = train.mean(0), train.std(0, correction=0)
        # A feature that is constant up to rounding would only add noise.
        constant = deviation <= 1e-6 * train.abs().amax(0)
        scale = torch.where(constant, 0.0, 1 / torch.where(constant, 1.0, deviation))
        return (train - mean) * scale, (test - mean) * scale


@dataclass(frozen=True)
class Projected:
    """Features wider than `dimension` are reduced to it by one `gaussian_projection`, the paper's option.

    Narrower ones are left as they are, as in the paper: to compare widths at equal capacity, choose a
    dimension no larger than that of the narrowest model.
    """

    dimension: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise BadInput(f"features cannot be projected to {self.dimension} dimensions; give at least 1")

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """See `FeatureAdaptation`."""
        if train.shape[1] <= self.dimension:
            return train, test
        projected = (gaussian_projection(features, self.seed, self.dimension) for features in (train, test))
        return next(projected), next(projected)


@dataclass(frozen=True)
class AdaptedProbeQuantity:
    """The probe `of`, with the same sentences and settings, on adapted features.

    `column` is the accuracy's name in a table and does not affect the measurement.
    """

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = TaskSplits

    of: ProbeQuantity
    features: FeatureAdaptation
    column: str = field(compare=False)

    @property
    def feature_sentences(self) -> int:
        """See `ReadsFeatures`."""
        return self.of.feature_sentences

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> TaskSplits:
        """See `Quantity`."""
        return self.of.draw(source, objective, progress)

    def measure(
        self, model: PreTrainedModel, drawn: TaskSplits, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        """See `accuracy_of`."""
        train, test = self.features.adapted(
            sentence_features(model, drawn.train.sentences), sentence_features(model, drawn.test.sentences)
        )
        classes = drawn.train.posterior.shape[1]
        accuracy = linear_probe(
            train, drawn.train.labels, test, drawn.test.labels, classes, self.of.probe, progress
        )
        named = replace(accuracy, quantity=f"linear_probe_{type(self.features).__name__.lower()}")
        return accuracy_of(named, subject, self.of.task)

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        return accuracy_names(self.column)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`, and `accuracy_columns`."""
        return accuracy_columns(self.column, *records)


def standardised(probe: ProbeQuantity, column: str = "standardised_accuracy") -> AdaptedProbeQuantity:
    """The probe on features of mean 0 and deviation 1 on its training sentences."""
    return AdaptedProbeQuantity(probe, Standardised(), column)
