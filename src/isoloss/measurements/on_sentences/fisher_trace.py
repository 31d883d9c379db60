"""The trace of the Hessian of a checkpoint, by the Fisher information (B.1)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.fisher_trace import TRACE_UNIT, FisherTrace, RunningFisherTrace, fisher_trace
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
        return trace_measurement(result, subject, self.seed)


def trace_measurement(trace: FisherTrace, subject: Subject[Any], seed: int) -> Measurement:
    """`fisher_trace` with its standard error over sentences, and a `fisher_trace_of_group` for each group.

    The settings of the total also say how many parameters were differentiated and how many were frozen; those
    of the groups name the group, and the groups add up to the total. If sentences differ in their number of
    predictions, `fisher_trace_token_averaged` gives every prediction equal weight.
    """
    records = [subject.record("fisher_trace", trace.estimate, TRACE_UNIT, seed, **trace.parameters.settings)]
    values = {"fisher_trace": trace.values}
    values |= {f"fisher_trace_of_group {name}": each for name, each in trace.groups.items()}
    if trace.predictions.min() < trace.predictions.max():
        averaged = "fisher_trace_token_averaged"
        records.append(subject.record(averaged, trace.token_averaged, TRACE_UNIT, seed))
        values[averaged] = cluster_values(trace.values, trace.predictions)
    records += subject.group_records("fisher_trace", trace.group_estimates, TRACE_UNIT, seed)
    return Measurement(records, values)


on_sentences = TraceQuantity
