"""The trace of a checkpoint's Fisher information (B.1), and the same relative to its weights."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.fisher_trace import (
    TRACE_UNIT,
    FisherTrace,
    RunningFisherTrace,
    fisher_trace,
    normalised_trace,
)
from isoloss.measurements.fixed_sentences import DRAWN, FixedSentences
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.objectives.batch import Objective
from isoloss.progress import Progress
from isoloss.results.estimate import cluster_values


@dataclass(frozen=True)
class TraceQuantity:
    """The trace on `sentences` sentences; `seed` determines them, their masks and the signs."""

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN
    column_names, columns = columns_in_order("trace", n="trace_sentences", settings=["parameters"])

    sentences: int
    seed: int

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        trace = fisher_trace(model, drawn.batches, subject.objective, seed=self.seed, progress=progress)
        return self.measurement(trace, subject)

    def running(self, model: nn.Module, objective: Objective, memory_bytes: int) -> RunningFisherTrace:
        return RunningFisherTrace(model, objective, self.seed, memory_bytes)

    def measurement(self, result: FisherTrace, subject: Subject[Any]) -> Measurement:
        """`fisher_trace` with its error over sentences, and a `fisher_trace_of_group` for each group.

        The settings of the total also say how many parameters were differentiated and how many were frozen;
        those of the groups name the group, and the groups add up to the total. If sentences differ in their
        number of predictions, `fisher_trace_token_averaged` gives every prediction equal weight.
        """
        seed, counts = self.seed, result.parameters.settings
        records = [subject.record("fisher_trace", result.estimate, TRACE_UNIT, seed, **counts)]
        values = {"fisher_trace": result.values}
        values |= {f"fisher_trace_of_group {name}": each for name, each in result.groups.items()}
        if result.predictions.min() < result.predictions.max():
            averaged = "fisher_trace_token_averaged"
            records.append(subject.record(averaged, result.token_averaged, TRACE_UNIT, seed))
            values[averaged] = cluster_values(result.values, result.predictions)
        records += subject.group_records("fisher_trace", result.group_estimates, TRACE_UNIT, seed)
        return Measurement(records, values)


fisher_trace_on_sentences = TraceQuantity


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


normalised_trace_on_sentences = NormalisedTraceQuantity
