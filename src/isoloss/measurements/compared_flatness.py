"""A measure of flatness of one or several models on the same sentences, masks and draws."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal, TypeVar

from torch import nn

from isoloss.curvature.ascent_sharpness import ascent_sharpness
from isoloss.curvature.fisher_trace import FisherTrace, RunningFisherTrace
from isoloss.curvature.forward_memory import refuse_without_gradient
from isoloss.curvature.gradient_norm import gradient_norm
from isoloss.curvature.hessian_top_eigenvalue import hessian_top_eigenvalue
from isoloss.curvature.hessian_trace import HessianTrace, RunningHessianTrace
from isoloss.curvature.noise_sensitivity import noise_sensitivity
from isoloss.curvature.normalised_trace import normalised_trace
from isoloss.curvature.per_sentence_norms import MEMORY_BYTES
from isoloss.curvature.stopping import RunningEstimate, Stopping, measure_until
from isoloss.measurements.flatness_records import (
    ascent_sharpness_records,
    difference_record,
    flatness_records,
    gradient_norm_records,
    hessian_trace_records,
    noise_sensitivity_records,
    normalised_trace_records,
    top_eigenvalue_records,
)
from isoloss.measurements.record import Record, Setting
from isoloss.measurements.sampled_batches import NextToken, SampledBatches
from isoloss.objectives.batch import Batch, Objective, sentences_between
from isoloss.objectives.evaluation_mode import device_of
from isoloss.objectives.sentences_apart import apart_throughout, refuse_reading_ahead
from isoloss.progress import Progress, silent

FixedSetQuantity = Literal[
    "gradient_norm", "hessian_top_eigenvalue", "normalised_trace", "ascent_sharpness", "noise_sensitivity"
]


def fixed_set_records(
    quantity: FixedSetQuantity,
    model: nn.Module,
    sentences: Sequence[Batch],
    objective: Objective,
    *,
    seed: int,
    name: str,
    settings: Mapping[str, Setting],
    progress: Progress = silent,
) -> list[Record]:
    """Measure one quantity of the model called `name`; see the function of the quantity's own name.

    Labels are the data's. Radii and noises are the functions' own. Raises BadInput as those do.
    """
    match quantity:
        case "gradient_norm":
            norm = gradient_norm(model, sentences, objective, progress=progress)
            return gradient_norm_records(norm, seed, name, settings)
        case "hessian_top_eigenvalue":
            top = hessian_top_eigenvalue(model, sentences, objective, seed=seed, progress=progress)
            return top_eigenvalue_records(top, seed, name, settings)
        case "normalised_trace":
            normalised = normalised_trace(model, sentences, objective, seed=seed, progress=progress)
            return normalised_trace_records(normalised, seed, name, settings)
        case "ascent_sharpness":
            sharpness = ascent_sharpness(model, sentences, objective, progress=progress)
            return ascent_sharpness_records(sharpness, seed, name, settings)
        case "noise_sensitivity":
            sensitivity = noise_sensitivity(model, sentences, objective, seed=seed, progress=progress)
            return noise_sensitivity_records(sensitivity, seed, name, settings)


Quantity = Literal["fisher_trace", "hessian_trace", FixedSetQuantity]

Trace = TypeVar("Trace", FisherTrace, HessianTrace)

INTERRUPTED = "interrupted"
FIXED_SENTENCES = 256
"""Sentences that quantities of a fixed set are measured on, unless a number is asked for."""


@dataclass(frozen=True)
class ComparedFlatness:
    """One quantity of all models: its records, why it stopped, how many parameters' parts were had how.

    `fisher_traces` are what the records of that quantity were made of, by model. `apart` says of models that
    cannot be handed sentences of any length together how theirs were handed over.
    """

    quantity: Quantity
    records: list[Record]
    stopped: str
    ways: dict[str, int] = field(default_factory=dict)
    fisher_traces: Mapping[str, FisherTrace] = field(default_factory=dict)
    apart: Mapping[str, str] = field(default_factory=dict)


def compare_flatness(
    quantity: Quantity,
    models: Mapping[str, nn.Module],
    batches: SampledBatches,
    stopping: Stopping,
    settings: Mapping[str, Setting],
    progress: Progress = silent,
    *,
    memory_bytes: int = MEMORY_BYTES,
) -> ComparedFlatness:
    """Measure each model, by name; those after the first also have their paired difference from it.

    Both traces take in sentences until every model's is as good as asked. Interrupted from the keyboard they
    give what they have, on the sentences that all models have seen, unless that is too little for an error
    bar. The other quantities are those of a fixed set, the first `stopping.sentences` or `FIXED_SENTENCES`
    sentences. `memory_bytes` bounds what the traces hold at once beside the models.
    """
    objective, seed = batches.objective, batches.seed
    _refuse_unusable(models, batches)
    if quantity == "fisher_trace":
        fisher = {
            name: RunningFisherTrace(model, objective, seed, memory_bytes) for name, model in models.items()
        }
        stopped, common = _run(quantity, fisher, batches, stopping, progress)
        found = {name: running.result(stopped, common) for name, running in fisher.items()}
        compared = _compared(quantity, found, flatness_records, seed, settings)
        return replace(compared, fisher_traces=found, apart=_ways_apart(fisher))
    if quantity == "hessian_trace":
        hessian = {
            name: RunningHessianTrace(model, objective, seed, memory_bytes=memory_bytes)
            for name, model in models.items()
        }
        stopped, common = _run(quantity, hessian, batches, stopping, progress)
        traces = {name: running.result(stopped, common) for name, running in hessian.items()}
        compared = _compared(quantity, traces, hessian_trace_records, seed, settings)
        return replace(compared, apart=_ways_apart(hessian))
    fixed = first_sentences(batches, stopping.sentences or FIXED_SENTENCES)
    records: list[Record] = []
    apart: dict[str, str] = {}
    for name, model in models.items():
        own, way = apart_throughout(model, objective, fixed)
        apart |= {name: way} if way is not None else {}
        records += fixed_set_records(
            quantity,
            model,
            fixed,
            own,
            seed=seed,
            name=name,
            settings=settings,
            progress=_named(progress, name),
        )
    stopped = f"a fixed set of {sum(map(len, fixed))} sentences was measured"
    return ComparedFlatness(quantity, records, stopped, apart=apart)


def _ways_apart(
    running: Mapping[str, RunningFisherTrace] | Mapping[str, RunningHessianTrace],
) -> dict[str, str]:
    return {name: way for name, each in running.items() if (way := each.apart.way) is not None}


def _refuse_unusable(models: Mapping[str, nn.Module], batches: SampledBatches) -> None:
    for first in islice(batches, 1):
        for model in models.values():
            placed = first.to(device_of(model))
            refuse_without_gradient(model, batches.objective, placed)
            if isinstance(batches.predicting, NextToken):
                refuse_reading_ahead(model, batches.objective, placed)


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


def first_sentences(batches: SampledBatches, sentences: int) -> list[Batch]:
    """The first so many sentences of the batches' order, or as many as there are."""
    whole: list[Batch] = []
    for batch in batches:
        whole.append(batch)
        if sum(map(len, whole)) >= sentences:
            break
    surplus = sum(map(len, whole)) - sentences
    if surplus > 0:
        whole[-1] = sentences_between(whole[-1], 0, len(whole[-1]) - surplus)
    return whole


def _named(progress: Progress, name: str) -> Progress:
    def report(task: str, completed: float, total: float, message: str = "") -> None:
        progress(f"{task} of {name}", completed, total, message)

    return report
