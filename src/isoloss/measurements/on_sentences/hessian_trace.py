"""The trace of the Hessian of a checkpoint's loss, under the data's labels or their exact distribution."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from isoloss.curvature.fisher_trace import TRACE_UNIT
from isoloss.curvature.hessian_trace import HessianTrace, RunningHessianTrace, hessian_trace
from isoloss.measurements.fixed_sentences import DRAWN_WITH_LABELS, FixedSentences, given
from isoloss.measurements.quantity import Measurement, Subject, columns_in_order
from isoloss.objectives.batch import Objective
from isoloss.progress import Progress
from isoloss.results.estimate import cluster_values


@dataclass(frozen=True)
class HessianTraceQuantity:
    """The trace on `sentences` sentences; `seed` determines them, their masks, the signs and the probes."""

    revision: ClassVar[int] = 1
    smaller_is: ClassVar[str] = "flatter"
    sources, drawn_as, draw = DRAWN_WITH_LABELS
    column_names, columns = columns_in_order("hessian_trace", "hessian_minus_fisher")

    sentences: int
    seed: int

    def measure(
        self, model: nn.Module, drawn: FixedSentences, subject: Subject[Any], progress: Progress
    ) -> Measurement:
        trace = hessian_trace(model, **given(drawn, subject, progress), seed=self.seed)
        return self.measurement(trace, subject)

    def running(self, model: nn.Module, objective: Objective, memory_bytes: int) -> RunningHessianTrace:
        return RunningHessianTrace(model, objective, self.seed, memory_bytes=memory_bytes)

    def measurement(self, result: HessianTrace, subject: Subject[Any]) -> Measurement:
        """`hessian_trace`, its groups, and `hessian_minus_fisher`, which vanishes at saturation (Lemma 3.2).

        `n` counts clusters of sentences; the settings of the total give the number of sentences.
        """
        seed, counts = self.seed, result.parameters.settings
        sentences = int(result.sentences.sum())
        records = [
            subject.record("hessian_trace", result.estimate, TRACE_UNIT, seed, sentences=sentences, **counts),
            subject.record("hessian_minus_fisher", result.residual_estimate, TRACE_UNIT, seed),
            *subject.group_records("hessian_trace", result.group_estimates, TRACE_UNIT, seed),
        ]
        return Measurement(records, {"hessian_trace": cluster_values(result.values, result.sentences)})


on_sentences = HessianTraceQuantity
