"""How fast Theorem 3.3 says that SGD's drift lowers a checkpoint's trace."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.curvature.trace_descent import trace_descent_rate
from isoloss.experiments.quantity import Columns, Subject, drawn_of, tensors_of
from isoloss.languages.language import Language
from isoloss.measurements.flatness_records import FlatnessSet
from isoloss.measurements.record import Record
from isoloss.objectives.batch import Batch
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class TraceDescentQuantity:
    """`trace_descent_rate` on `sentences` sentences, after a descent of `distance` = ηk."""

    revision: ClassVar[int] = 1

    sentences: int
    distance: float
    seed: int

    def draw(
        self,
        language: Language,
        objective: PretrainingObjective,
        progress: Progress,  # noqa: ARG002
    ) -> "TraceDescentSet":
        """See `Quantity`."""
        return TraceDescentSet(
            FlatnessSet.draw(language, objective, self.sentences, self.seed), self.distance
        )

    def restore(
        self,
        tensors: Tensors,
        language: Language,  # noqa: ARG002
        objective: PretrainingObjective,  # noqa: ARG002
    ) -> "TraceDescentSet":
        """See `Quantity`."""
        return TraceDescentSet(FlatnessSet(drawn_of(Batch, tensors), self.seed), self.distance)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `predicted_descent`, the trace's fall by unit of τ, and its error."""
        found = records[0]
        return {"predicted_descent": found.value, "predicted_descent_error": found.standard_error}


@dataclass(frozen=True)
class TraceDescentSet:
    """See `MeasuringSet`."""

    drawn: FlatnessSet
    distance: float

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return tensors_of(self.drawn.batch)

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`."""
        rate = trace_descent_rate(
            model, subject.objective, self.drawn.batch, self.distance, seed=self.drawn.seed, progress=progress
        )
        return [
            Record(
                "trace_descent_rate",
                rate.value,
                "nats per squared parameter and unit of η²k / 4B",
                rate.standard_error,
                rate.n,
                self.drawn.seed,
                subject.checkpoint,
                dict(subject.settings) | {"sentences": len(self.drawn.batch)},
            )
        ]
