"""Accuracy of a linear probe on features that are standardised, or projected to one dimension, first."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.languages.language import Language
from isoloss.languages.task import TaskSplits
from isoloss.measurements.feature_adaptation import FeatureAdaptation, Standardised
from isoloss.measurements.linear_probe import linear_probe
from isoloss.measurements.quantities.probe import ProbeQuantity, accuracy_columns, accuracy_of
from isoloss.measurements.quantity import Columns, Measurement, Subject
from isoloss.measurements.record import Record
from isoloss.measurements.sentence_features import sentence_features
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class AdaptedProbeQuantity:
    """The probe `of`, on the same sentences with the same settings, but for what is done to its features.

    `column` is what the accuracy is called in a table and no part of what is measured.
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

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`, and `accuracy_columns`."""
        return accuracy_columns(self.column, *records)


def standardised(probe: ProbeQuantity, column: str = "standardised_accuracy") -> AdaptedProbeQuantity:
    """The probe on features of mean 0 and deviation 1 on its training sentences."""
    return AdaptedProbeQuantity(probe, Standardised(), column)
