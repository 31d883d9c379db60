"""A measure of flatness of one or several models on the same sentences, masks and draws."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, Protocol, runtime_checkable

from torch import nn

from isoloss.curvature.fisher_trace import TRACE_UNIT, FisherTrace, RunningFisherTrace
from isoloss.curvature.hessian_trace import HessianTrace, RunningHessianTrace
from isoloss.curvature.per_sentence.norms import MEMORY_BYTES
from isoloss.curvature.per_sentence.traces import refuse_without_gradient
from isoloss.curvature.stopping import RunningEstimate, Stopping, measure_until
from isoloss.measurements.fixed_sentences import FixedSentences
from isoloss.measurements.on_sentences.fisher_trace import trace_measurement
from isoloss.measurements.quantity import AnySource, Measurement, MeasuresModels, Subject
from isoloss.measurements.sampled_batches import NextToken, Reading, SampledBatches
from isoloss.objectives.batch import Batch, NonFiniteScores, Objective, sentences_between
from isoloss.objectives.evaluation_mode import device_of
from isoloss.objectives.sentences_apart import SentencesApart, apart_throughout, refuse_reading_ahead
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate
from isoloss.results.record import Record, Setting

QuantityName = Literal[
    "fisher_trace",
    "hessian_trace",
    "gradient_norm",
    "hessian_top_eigenvalue",
    "normalised_trace",
    "ascent_sharpness",
    "noise_sensitivity",
]
EIGENVALUE_TOLERANCE = 1e-3


def fixed_set_quantity(name: QuantityName, sentences: int, seed: int) -> MeasuresModels[None, FixedSentences]:
    """The fixed-set quantity called `name`; the traces, which can stop anywhere, are not among them."""
    # Each has its own estimators, of which one call needs only a few.
    match name:
        case "gradient_norm":
            from isoloss.measurements.on_sentences.gradient_norm import GradientNormQuantity

            return GradientNormQuantity(sentences, seed)
        case "hessian_top_eigenvalue":
            from isoloss.measurements.on_sentences.hessian_top_eigenvalue import TopEigenvalueQuantity

            return TopEigenvalueQuantity(sentences, seed, EIGENVALUE_TOLERANCE)
        case "normalised_trace":
            from isoloss.measurements.on_sentences.normalised_trace import NormalisedTraceQuantity

            return NormalisedTraceQuantity(sentences, seed)
        case "ascent_sharpness":
            from isoloss.measurements.on_sentences.ascent_sharpness import AscentSharpnessQuantity

            return AscentSharpnessQuantity(sentences, seed)
        case "noise_sensitivity":
            from isoloss.measurements.on_sentences.noise_sensitivity import OwnNoiseSensitivityQuantity

            return OwnNoiseSensitivityQuantity(sentences, seed)
    raise AssertionError(name)


TRACES = ("fisher_trace", "hessian_trace")
"""The quantities that are measured until their error is as asked."""

INTERRUPTED = "interrupted"
FIXED_SENTENCES = 256
"""Sentences that quantities of a fixed set are measured on, unless a number is asked for."""


@dataclass(frozen=True)
class ComparedFlatness:
    """One quantity for all models, by name: the measurements, why they stopped, and the differences.

    `differences` are records of each other model minus the first. `ways` counts the first model's parameter
    tensors by the method that computed their share; `fisher_traces` holds the traces behind a Fisher-trace
    measurement. `apart` says how sentences were batched for models whose scores change with padding or with
    the other sentences of a batch. `reading` counts what was read of the corpus.
    """

    quantity: QuantityName
    measurements: Mapping[str, Measurement]
    stopped: str
    reading: Reading
    differences: Sequence[Record] = ()
    ways: Mapping[str, int] = field(default_factory=dict)
    fisher_traces: Mapping[str, FisherTrace] = field(default_factory=dict)
    apart: Mapping[str, str] = field(default_factory=dict)

    @property
    def records(self) -> list[Record]:
        """The records of each model, then the differences."""
        measured = [record for each in self.measurements.values() for record in each.records]
        return [*measured, *self.differences]


def compare_flatness(
    quantity: QuantityName,
    models: Mapping[str, nn.Module],
    batches: SampledBatches,
    stopping: Stopping,
    settings: Mapping[str, Setting],
    progress: Progress = silent,
    *,
    memory_bytes: int = MEMORY_BYTES,
) -> ComparedFlatness:
    """Measure each model, by name; those after the first also get their paired difference from it.

    Both traces add sentences until every model's estimate meets the stopping criterion. On a keyboard
    interrupt they return the estimates on the sentences seen by all models, unless these are too few for an
    error bar. The other quantities are measured on a fixed set, the first `stopping.sentences` or
    `FIXED_SENTENCES` sentences. `memory_bytes` bounds the memory of the traces beside the models.
    """
    objective, seed = batches.objective, batches.seed
    _refuse_unusable(models, batches)
    subjects = {name: Subject(name, objective, settings, None) for name in models}
    if quantity not in TRACES:
        return _of_fixed_set(quantity, models, batches, stopping, subjects, progress)
    running = {
        name: _running_trace(quantity, model, objective, seed, memory_bytes) for name, model in models.items()
    }
    stopped, common = _run(quantity, running, batches, stopping, progress)
    traces = {name: each.result(stopped, common) for name, each in running.items()}
    first, *others = traces
    return ComparedFlatness(
        quantity,
        {name: _trace_measurement(trace, subjects[name], seed) for name, trace in traces.items()},
        traces[first].stopped,
        batches.reading,
        [
            subjects[name].record(
                f"{quantity}_difference",
                traces[name].difference(traces[first]),
                TRACE_UNIT,
                seed,
                reference=first,
            )
            for name in others
        ],
        Counter(traces[first].ways.values()),
        {name: trace for name, trace in traces.items() if isinstance(trace, FisherTrace)},
        {name: way for name, each in running.items() if (way := each.apart.way) is not None},
    )


@runtime_checkable
class _RunningTrace(RunningEstimate, Protocol):
    @property
    def apart(self) -> SentencesApart: ...

    def result(self, stopped: str, sentences: int | None = None) -> Any: ...


def _running_trace(
    quantity: QuantityName, model: nn.Module, objective: Objective, seed: int, memory_bytes: int
) -> _RunningTrace:
    if quantity == "fisher_trace":
        return RunningFisherTrace(model, objective, seed, memory_bytes)
    return RunningHessianTrace(model, objective, seed, memory_bytes=memory_bytes)


def _trace_measurement(trace: Any, subject: Subject[None], seed: int) -> Measurement:
    if isinstance(trace, FisherTrace):
        return trace_measurement(trace, subject, seed)
    return hessian_trace_measurement(trace, subject, seed)


@contextmanager
def _named(model: str) -> Iterator[None]:
    """Name the model in errors about scores that are not finite."""
    try:
        yield
    except NonFiniteScores as error:
        error.model = model
        raise


@dataclass(frozen=True)
class _OfModel:
    """The running estimate of a model, which names the model in its errors."""

    name: str
    running: RunningEstimate

    @property
    def sentences(self) -> int:
        return self.running.sentences

    @property
    def estimate(self) -> Estimate | None:
        return self.running.estimate

    def add(self, batch: Batch) -> None:
        with _named(self.name):
            self.running.add(batch)


def _of_fixed_set(
    name: QuantityName,
    models: Mapping[str, nn.Module],
    batches: SampledBatches,
    stopping: Stopping,
    subjects: Mapping[str, Subject[None]],
    progress: Progress,
) -> ComparedFlatness:
    fixed = first_sentences(batches, stopping.sentences or FIXED_SENTENCES)
    sentences = sum(map(len, fixed))
    quantity, drawn = fixed_set_quantity(name, sentences, batches.seed), FixedSentences(tuple(fixed))
    measurements: dict[str, Measurement] = {}
    apart: dict[str, str] = {}
    for called, model in models.items():
        own, way = apart_throughout(model, batches.objective, fixed)
        apart |= {called: way} if way is not None else {}
        subject = replace(subjects[called], objective=own)
        with _named(called):
            measurements[called] = quantity.measure(model, drawn, subject, progress_of(called, progress))
    stopped = f"a fixed set of {sentences} sentences was measured"
    return ComparedFlatness(name, measurements, stopped, batches.reading, apart=apart)


def _refuse_unusable(models: Mapping[str, nn.Module], batches: SampledBatches) -> None:
    for first in islice(batches, 1):
        for model in models.values():
            placed = first.to(device_of(model))
            refuse_without_gradient(model, batches.objective, placed)
            if isinstance(batches.predicting, NextToken):
                refuse_reading_ahead(model, batches.objective, placed)


def _run(
    quantity: QuantityName,
    running: Mapping[str, RunningEstimate],
    batches: SampledBatches,
    stopping: Stopping,
    progress: Progress,
) -> tuple[str, int]:
    """The reason for stopping, and the number of sentences added to every estimate."""
    each = [_OfModel(name, estimate) for name, estimate in running.items()]
    task, expected = quantity.replace("_", " "), len(batches.corpus)
    try:
        stopped = measure_until(each, batches, stopping, task=task, expected=expected, progress=progress)
    except KeyboardInterrupt:
        if any(estimate.estimate is None for estimate in each):
            raise
        stopped = INTERRUPTED
    return stopped, min(estimate.sentences for estimate in each)


def first_sentences(batches: SampledBatches, sentences: int) -> list[Batch]:
    """The first `sentences` sentences in the order of the batches, or as many as there are."""
    whole: list[Batch] = []
    for batch in batches:
        whole.append(batch)
        if sum(map(len, whole)) >= sentences:
            break
    surplus = sum(map(len, whole)) - sentences
    if surplus > 0:
        whole[-1] = sentences_between(whole[-1], 0, len(whole[-1]) - surplus)
    return whole


def progress_of(name: str, progress: Progress) -> Progress:
    """The progress report of one of several models, labelled with its name."""

    def report(task: str, completed: float, total: float, message: str = "") -> None:
        progress(f"{task} of {name}", completed, total, message)

    return report


def hessian_trace_measurement(trace: HessianTrace, subject: Subject[AnySource], seed: int) -> Measurement:
    """`hessian_trace`, its groups, and `hessian_minus_fisher`, which Lemma 3.2 says vanishes at saturation.

    `n` counts clusters of sentences; the settings of the total give the number of sentences.
    """
    sentences, counts = int(trace.sentences.sum()), trace.parameters.settings
    return Measurement(
        [
            subject.record("hessian_trace", trace.estimate, TRACE_UNIT, seed, sentences=sentences, **counts),
            subject.record("hessian_minus_fisher", trace.residual_estimate, TRACE_UNIT, seed),
            *subject.group_records("hessian_trace", trace.group_estimates, TRACE_UNIT, seed),
        ]
    )
