"""Accuracy of a linear probe on features that are standardised, or projected to one dimension, first."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.experiments.quantities.probe import ProbeQuantity, ProbeSet
from isoloss.experiments.quantity import Columns, Subject
from isoloss.languages.language import Language
from isoloss.measurements.feature_adaptation import FeatureAdaptation, Standardised
from isoloss.measurements.linear_probe import linear_probe
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

    of: ProbeQuantity
    features: FeatureAdaptation
    column: str = field(compare=False)

    @property
    def feature_sentences(self) -> int:
        """See `ReadsFeatures`."""
        return self.of.feature_sentences

    def draw(
        self, language: Language, objective: PretrainingObjective, progress: Progress
    ) -> "AdaptedProbeSet":
        """See `Quantity`."""
        return AdaptedProbeSet(self.of.draw(language, objective, progress), self.features)

    def restore(
        self, tensors: Tensors, language: Language, objective: PretrainingObjective
    ) -> "AdaptedProbeSet":
        """See `Quantity`."""
        return AdaptedProbeSet(self.of.restore(tensors, language, objective), self.features)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: those of the plain probe under another name."""
        return replace(self.of, column=self.column).columns(records)


def standardised(probe: ProbeQuantity, column: str = "standardised_accuracy") -> AdaptedProbeQuantity:
    """The probe on features of mean 0 and deviation 1 on its training sentences."""
    return AdaptedProbeQuantity(probe, Standardised(), column)


@dataclass(frozen=True)
class AdaptedProbeSet:
    """See `MeasuringSet`."""

    of: ProbeSet
    features: FeatureAdaptation

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return self.of.tensors()

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`."""
        own = self.of.splits
        train, test = self.features.adapted(
            sentence_features(model, own.train.sentences), sentence_features(model, own.test.sentences)
        )
        accuracy = linear_probe(
            train, own.train.labels, test, own.test.labels, self.of.classes, self.of.probe, progress
        )
        named = replace(accuracy, quantity=f"linear_probe_{type(self.features).__name__.lower()}")
        subject.sentence_values.update(named.sentence_values())
        return named.records(subject.checkpoint, {**subject.settings, "task": self.of.task})
