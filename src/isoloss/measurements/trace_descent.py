"""How fast SGD's drift lowers a checkpoint's trace according to Theorem 3.3."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from isoloss.curvature.trace_descent import trace_descent_rate
from isoloss.measurements.fixed_sentences import FixedSentences, draw_sentences
from isoloss.measurements.quantity import (
    LANGUAGES_AND_TEXT,
    AnySource,
    Columns,
    Measurement,
    Subject,
    names_with_errors,
    value_and_error,
)
from isoloss.progress import Progress
from isoloss.results.record import Record


@dataclass(frozen=True)
class TraceDescentQuantity:
    """`trace_descent_rate` on `sentences` sentences, after a descent of `distance` = ηk."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = LANGUAGES_AND_TEXT
    drawn_as: ClassVar[type] = FixedSentences

    sentences: int
    distance: float
    seed: int

    draw = draw_sentences

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[AnySource], progress: Progress
    ) -> Measurement:
        """`trace_descent_rate`."""
        (batch,) = drawn.batches
        rate = trace_descent_rate(
            model, subject.objective, batch, self.distance, seed=self.seed, progress=progress
        )
        unit = "nats per squared parameter and unit of η²k / 4B"
        return Measurement(
            [subject.record("trace_descent_rate", rate, unit, self.seed, sentences=len(batch))]
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        """See `Quantity`."""
        return names_with_errors("predicted_descent")

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`: `predicted_descent`, the decrease of the trace per unit of τ, and its error."""
        return value_and_error("predicted_descent", records[0])
