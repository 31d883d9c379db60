"""The largest eigenvalue of the Hessian of a checkpoint's loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.curvature.hessian_top_eigenvalue import hessian_top_eigenvalue
from isoloss.experiments.quantities.exact_distribution_set import ExactDistributionSet
from isoloss.experiments.quantity import Columns, Subject, drawn_of, tensors_of
from isoloss.languages.language import Language
from isoloss.measurements.flatness_records import top_eigenvalue_records
from isoloss.measurements.record import Record
from isoloss.objectives.batch import Batch
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class TopEigenvalueQuantity:
    """The top eigenvalue of the loss on `sentences` sentences; see `hessian_top_eigenvalue`.

    `tolerance` is how exact it is made, relative; checkpoints differ by far more.
    """

    revision: ClassVar[int] = 1

    sentences: int
    seed: int
    tolerance: float = 1e-2

    def draw(
        self,
        language: Language,
        objective: PretrainingObjective,
        progress: Progress,  # noqa: ARG002
    ) -> "TopEigenvalueSet":
        """See `Quantity`."""
        return TopEigenvalueSet(
            ExactDistributionSet.draw(language, objective, self.sentences, self.seed), self.tolerance
        )

    def restore(
        self,
        tensors: Tensors,
        language: Language,
        objective: PretrainingObjective,
    ) -> "TopEigenvalueSet":
        """See `Quantity`."""
        drawn = ExactDistributionSet.of(drawn_of(Batch, tensors), language, objective, self.seed)
        return TopEigenvalueSet(drawn, self.tolerance)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `top_eigenvalue` and its error."""
        found = next(record for record in records if record.quantity == "hessian_top_eigenvalue")
        return {"top_eigenvalue": found.value, "top_eigenvalue_error": found.standard_error}


@dataclass(frozen=True)
class TopEigenvalueSet:
    """See `MeasuringSet`."""

    drawn: ExactDistributionSet
    tolerance: float

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return tensors_of(self.drawn.batch)

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`."""
        found = hessian_top_eigenvalue(
            model,
            [self.drawn.batch],
            subject.objective,
            distribution=self.drawn.distribution,
            tolerance=self.tolerance,
            seed=self.drawn.seed,
            progress=progress,
        )
        return top_eigenvalue_records(found, self.drawn.seed, subject.checkpoint, subject.settings)
