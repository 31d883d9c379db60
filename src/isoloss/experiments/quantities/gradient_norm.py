"""The norm of the gradient of a checkpoint's loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.curvature.gradient_norm import gradient_norm
from isoloss.experiments.quantities.exact_distribution_set import ExactDistributionSet
from isoloss.experiments.quantity import Columns, Subject, drawn_of, tensors_of
from isoloss.languages.language import Language
from isoloss.measurements.flatness_records import gradient_norm_records
from isoloss.measurements.record import Record
from isoloss.objectives.batch import Batch
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class GradientNormQuantity:
    """The norm of the gradient of the loss on `sentences` sentences; see `gradient_norm`."""

    revision: ClassVar[int] = 1

    sentences: int
    seed: int

    def draw(
        self,
        language: Language,
        objective: PretrainingObjective,
        progress: Progress,  # noqa: ARG002
    ) -> "GradientNormSet":
        """See `Quantity`."""
        return GradientNormSet(ExactDistributionSet.draw(language, objective, self.sentences, self.seed))

    def restore(
        self,
        tensors: Tensors,
        language: Language,
        objective: PretrainingObjective,
    ) -> "GradientNormSet":
        """See `Quantity`."""
        drawn = ExactDistributionSet.of(drawn_of(Batch, tensors), language, objective, self.seed)
        return GradientNormSet(drawn)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `gradient_norm` and its error."""
        found = next(record for record in records if record.quantity == "gradient_norm")
        return {"gradient_norm": found.value, "gradient_norm_error": found.standard_error}


@dataclass(frozen=True)
class GradientNormSet:
    """See `MeasuringSet`."""

    drawn: ExactDistributionSet

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return tensors_of(self.drawn.batch)

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`."""
        found = gradient_norm(
            model,
            [self.drawn.batch],
            subject.objective,
            distribution=self.drawn.distribution,
            progress=progress,
        )
        return gradient_norm_records(found, self.drawn.seed, subject.checkpoint, subject.settings)
