"""The trace of the Hessian itself, and how far the Fisher information's is from it (Lemma 3.2)."""

from isoloss.curvature.fisher_trace import TRACE_UNIT
from isoloss.curvature.hessian_trace import HessianTrace
from isoloss.measurements.quantity import AnySource, Measurement, Subject


def hessian_trace_measurement(trace: HessianTrace, subject: Subject[AnySource], seed: int) -> Measurement:
    """`hessian_trace`, its groups, and `hessian_minus_fisher`, which Lemma 3.2 says vanishes at saturation.

    `n` counts clusters of sentences, and the whole's settings the sentences.
    """
    sentences, counts = int(trace.sentences.sum()), trace.parameters.settings
    return Measurement(
        [
            subject.record("hessian_trace", trace.estimate, TRACE_UNIT, seed, sentences=sentences, **counts),
            subject.record("hessian_minus_fisher", trace.residual_estimate, TRACE_UNIT, seed),
            *subject.group_records("hessian_trace", trace.group_estimates, TRACE_UNIT, seed),
        ]
    )
