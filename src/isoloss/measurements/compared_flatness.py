"""A measure of flatness of one or several models on the same sentences, masks and draws."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal, TypeVar

from torch import nn

from isoloss.curvature.fisher_trace import FisherTrace, RunningFisherTrace
from isoloss.curvature.gradient_norm import gradient_norm
from isoloss.curvature.hessian_top_eigenvalue import hessian_top_eigenvalue
from isoloss.curvature.hessian_trace import HessianTrace, RunningHessianTrace
from isoloss.curvature.stopping import RunningEstimate, Stopping, measure_until
from isoloss.measurements.flatness_records import (
    difference_record,
    flatness_records,
    gradient_norm_records,
    hessian_trace_records,
    top_eigenvalue_records,
)
from isoloss.measurements.record import Record, Setting
from isoloss.measurements.sampled_batches import SENTENCES_A_BATCH, SampledBatches
from isoloss.objectives.batch import Batch
from isoloss.objectives.batch_parts import sentences_between
from isoloss.progress import Progress, silent

Quantity = Literal["fisher_trace", "hessian_trace", "gradient_norm", "hessian_top_eigenvalue"]

Trace = TypeVar("Trace", FisherTrace, HessianTrace)

INTERRUPTED = "interrupted"
FIXED_SENTENCES = 256
"""Sentences that quantities of a fixed set are measured on, unless a number is asked for."""


@dataclass(frozen=True)
class ComparedFlatness:
    """One quantity of all models: its records, why it stopped, how many parameters' parts were had how.

    `fisher_traces` are what the records of that quantity were made of, by model.
    """

    quantity: Quantity
    records: list[Record]
    stopped: str
    ways: dict[str, int] = field(default_factory=dict)
    fisher_traces: Mapping[str, FisherTrace] = field(default_factory=dict)


def compare_flatness(
    quantity: Quantity,
    models: Mapping[str, nn.Module],
    batches: SampledBatches,
    stopping: Stopping,
    settings: Mapping[str, Setting],
    progress: Progress = silent,
) -> ComparedFlatness:
    """Measure each model, by name; those after the first also have their paired difference from it.

    Both traces take in sentences until every model's is as good as asked. Interrupted from the keyboard they
    give what they have, on the sentences that all models have seen, unless that is too little for an error
    bar. The gradient's norm and the top eigenvalue are those of a fixed set, the first `stopping.sentences`
    or `FIXED_SENTENCES` sentences.
    """
    objective, seed = batches.objective, batches.seed
    if quantity == "fisher_trace":
        fisher = {name: RunningFisherTrace(model, objective, seed) for name, model in models.items()}
        stopped, common = _run(quantity, fisher, batches, stopping, progress)
        found = {name: running.result(stopped, common) for name, running in fisher.items()}
        return replace(_compared(quantity, found, flatness_records, seed, settings), fisher_traces=found)
    if quantity == "hessian_trace":
        hessian = {name: RunningHessianTrace(model, objective, seed) for name, model in models.items()}
        stopped, common = _run(quantity, hessian, batches, stopping, progress)
        traces = {name: running.result(stopped, common) for name, running in hessian.items()}
        return _compared(quantity, traces, hessian_trace_records, seed, settings)
    fixed, records = _first(batches, stopping.sentences or FIXED_SENTENCES), []
    for name, model in models.items():
        if quantity == "gradient_norm":
            norm = gradient_norm(model, fixed, objective, progress=_named(progress, name))
            records += gradient_norm_records(norm, seed, name, settings)
        else:
            eigenvalue = hessian_top_eigenvalue(
                model, fixed, objective, seed=seed, progress=_named(progress, name)
            )
            records += top_eigenvalue_records(eigenvalue, seed, name, settings)
    return ComparedFlatness(
        quantity, records, f"a fixed set of {sum(map(len, fixed))} sentences was measured"
    )


def _run(
    quantity: Quantity,
    running: Mapping[str, RunningEstimate],
    batches: SampledBatches,
    stopping: Stopping,
    progress: Progress,
) -> tuple[str, int]:
    """Why it stopped, and how many sentences all have taken in."""
    each, task, expected = list(running.values()), quantity.replace("_", " "), len(batches.corpus)
    try:
        stopped = measure_until(each, batches, stopping, task=task, expected=expected, progress=progress)
    except KeyboardInterrupt:
        if any(estimate.estimate is None for estimate in each):
            raise
        stopped = INTERRUPTED
    return stopped, min(estimate.sentences for estimate in each)


def _compared(
    quantity: Quantity,
    traces: Mapping[str, Trace],
    records_of: Callable[[Trace, int, str, Mapping[str, Setting]], list[Record]],
    seed: int,
    settings: Mapping[str, Setting],
) -> ComparedFlatness:
    first = next(iter(traces))
    reference = traces[first]
    records = [record for name, trace in traces.items() for record in records_of(trace, seed, name, settings)]
    records += [
        difference_record(quantity, trace.difference(reference), seed, (name, first), settings)
        for name, trace in traces.items()
        if name != first
    ]
    return ComparedFlatness(quantity, records, reference.stopped, dict(Counter(reference.ways.values())))


def _first(batches: SampledBatches, sentences: int) -> list[Batch]:
    whole = list(islice(batches, -(-sentences // SENTENCES_A_BATCH)))
    surplus = sum(map(len, whole)) - sentences
    if surplus > 0:
        whole[-1] = sentences_between(whole[-1], 0, len(whole[-1]) - surplus)
    return whole


def _named(progress: Progress, name: str) -> Progress:
    def report(task: str, completed: float, total: float, message: str = "") -> None:
        progress(f"{task} of {name}", completed, total, message)

    return report
