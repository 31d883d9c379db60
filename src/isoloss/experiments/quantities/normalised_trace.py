"""The trace of a checkpoint relative to the size of its weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.curvature.normalised_trace import normalised_trace
from isoloss.experiments.quantity import Columns, Subject, drawn_of, tensors_of
from isoloss.languages.language import Language
from isoloss.measurements.flatness_records import FlatnessSet, normalised_trace_records
from isoloss.measurements.record import Record
from isoloss.objectives.batch import Batch
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.progress import Progress


@dataclass(frozen=True)
class NormalisedTraceQuantity:
    """Normalised tensor by tensor, and as a whole, on `sentences` sentences; see `normalised_trace`."""

    revision: ClassVar[int] = 1

    sentences: int
    seed: int

    def draw(
        self,
        language: Language,
        objective: PretrainingObjective,
        progress: Progress,  # noqa: ARG002
    ) -> "NormalisedTraceSet":
        """See `Quantity`."""
        return NormalisedTraceSet(FlatnessSet.draw(language, objective, self.sentences, self.seed))

    def restore(
        self,
        tensors: Tensors,
        language: Language,  # noqa: ARG002
        objective: PretrainingObjective,  # noqa: ARG002
    ) -> "NormalisedTraceSet":
        """See `Quantity`."""
        drawn = FlatnessSet(drawn_of(Batch, tensors), self.seed)
        return NormalisedTraceSet(drawn)

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `normalised_trace`, `wholly_normalised_trace`, and their errors."""
        columns: Columns = {}
        for record in records:
            name = record.quantity.replace("_fisher", "")
            columns |= {name: record.value, f"{name}_error": record.standard_error}
        return columns


@dataclass(frozen=True)
class NormalisedTraceSet:
    """See `MeasuringSet`."""

    drawn: FlatnessSet

    def tensors(self) -> Tensors:
        """See `MeasuringSet`."""
        return tensors_of(self.drawn.batch)

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """See `MeasuringSet`."""
        seed = self.drawn.seed
        found = normalised_trace(model, [self.drawn.batch], subject.objective, seed=seed, progress=progress)
        return normalised_trace_records(found, seed, subject.checkpoint, subject.settings)
