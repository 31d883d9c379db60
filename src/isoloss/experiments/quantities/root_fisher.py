"""The sum of the roots of the Fisher information's diagonal: what AdamW's drift descends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.curvature.fisher_diagonal import fisher_diagonal
from isoloss.experiments.quantity import Columns, Subject, drawn_of, tensors_of
from isoloss.languages.language import Language
from isoloss.measurements.flatness_records import FlatnessSet
from isoloss.measurements.record import Record
from isoloss.objectives.batch import Batch
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class RootFisherQuantity:
    """Σ_i √F_ii on `sentences` sentences; see `fisher_diagonal`."""

    revision: ClassVar[int] = 2

    sentences: int
    seed: int

    def draw(
        self,
        language: Language,
        objective: PretrainingObjective,
        progress: Progress,  # noqa: ARG002
    ) -> "RootFisherSet":
        """See `Quantity`."""
        return RootFisherSet(FlatnessSet.draw(language, objective, self.sentences, self.seed))

    def restore(
        self,
        tensors: Tensors,
        language: Language,  # noqa: ARG002
        objective: PretrainingObjective,  # noqa: ARG002
    ) -> "RootFisherSet":
        """See `Quantity`."""
        return RootFisherSet(FlatnessSet(drawn_of(Batch, tensors), self.seed))

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `root_fisher` and its error."""
        found = records[0]
        return {"root_fisher": found.value, "root_fisher_error": found.standard_error}


@dataclass(frozen=True)
class RootFisherSet:
    """See `MeasuringSet`."""

    drawn: FlatnessSet

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return tensors_of(self.drawn.batch)

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`."""
        found = fisher_diagonal(model, subject.objective, self.drawn.batch, progress=progress).root_sum
        return [
            Record(
                "sum_root_fisher",
                found.value,
                "square root of nats, summed over parameters",
                found.standard_error,
                found.n,
                self.drawn.seed,
                subject.checkpoint,
                dict(subject.settings) | {"sentences": len(self.drawn.batch)},
            )
        ]
