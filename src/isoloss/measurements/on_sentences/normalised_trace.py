"""The trace of a checkpoint relative to the size of its weights."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.fisher_trace import normalised_trace
from isoloss.measurements.fixed_sentences import DRAWN, FixedSentences
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.progress import Progress


@dataclass(frozen=True)
class NormalisedTraceQuantity:
    """The trace normalised per tensor and as a whole, on `sentences` sentences; see `normalised_trace`."""

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN
    column_names, columns = columns_in_order("normalised_trace", "wholly_normalised_trace")

    sentences: int
    seed: int

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        """`normalised_fisher_trace`, tensor by tensor, and `wholly_normalised_fisher_trace`, in nats."""
        seed = self.seed
        found = normalised_trace(model, drawn.batches, subject.objective, seed=seed, progress=progress)
        counts, whole = found.parameters.settings, found.whole_estimate
        by_tensor = subject.record("normalised_fisher_trace", found.estimate, "nats", seed, **counts)
        wholly = subject.record("wholly_normalised_fisher_trace", whole, "nats", seed, **counts)
        values = {by_tensor.quantity: found.by_tensor, wholly.quantity: found.whole}
        return Measurement([by_tensor, wholly], values)


on_sentences = NormalisedTraceQuantity
