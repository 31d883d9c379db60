"""Flatness that is the same after every reparametrisation that leaves the function as it is."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.fisher_diagonal import unit_trace
from isoloss.measurements.fixed_sentences import DRAWN, FixedSentences
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.progress import Progress


@dataclass(frozen=True)
class UnitTraceQuantity:
    """The Fisher information relative to each unit's weights, on `sentences` sentences; see `unit_trace`."""

    revision: ClassVar[int] = 4
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN
    column_names, columns = columns_in_order("unit_trace")

    sentences: int
    seed: int

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`unit_trace`, in nats, with its values per sentence."""
        found = unit_trace(model, drawn.batches, subject.objective, seed=self.seed, progress=progress)
        return subject.measurement(
            "unit_trace", found.estimate, "nats", self.seed, {"units": found.units}, values=found.values
        )


on_sentences = UnitTraceQuantity
