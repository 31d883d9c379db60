"""A quantity of one or several models on the same sentences, masks and draws of a text; verdicts by it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from torch import nn

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.per_sentence.norms import MEMORY_BYTES
from isoloss.curvature.stopping import Stopping, measure_until
from isoloss.errors import BadInput
from isoloss.measurements.fixed_sentences import FixedSentences
from isoloss.measurements.on_sentences import quantity_named, short_name
from isoloss.measurements.quantity import Measurement, Quantity, StopsAnywhere, Subject, takes
from isoloss.measurements.sampled_batches import Reading, SampledBatches
from isoloss.measurements.verdicts import (
    FLATTER,
    LOSS,
    LOWER,
    NORMALISED,
    OTHER_PARAMETERS,
    TRACE,
    PairVerdict,
    answered,
    asked_about,
)
from isoloss.objectives.batch import NonFiniteScores
from isoloss.objectives.evaluation import device_of, refuse_reading_ahead, refuse_without_gradient
from isoloss.objectives.pretrained import apart_throughout
from isoloss.progress import Progress, silent
from isoloss.results.record import Record, Setting

INTERRUPTED = "interrupted"
FIXED_SENTENCES = 256
"""Sentences that quantities of a fixed set are measured on, unless a number is asked for."""


@dataclass(frozen=True)
class MeasuredModels:
    """One quantity for all models, by name: the measurements, why they stopped, and the differences.

    `differences` are records of each other model minus the first, where these may be compared, and `reading`
    counts what was read for the sentences measured. `ways` counts the first model's tensors by the method
    that computed their share. `apart` says how sentences were batched for models whose scores change with
    padding or with the other sentences of a batch. `error_over` is what the quantity says that its errors are
    over, and `smaller_is` what a smaller value means.
    """

    quantity: str
    measurements: Mapping[str, Measurement]
    stopped: str
    reading: Reading
    differences: Sequence[Record] = ()
    ways: Mapping[str, int] = field(default_factory=dict)
    apart: Mapping[str, str] = field(default_factory=dict)
    error_over: str | None = None
    smaller_is: str = LOWER

    @property
    def records(self) -> list[Record]:
        """The records of each model, then the differences."""
        measured = [record for each in self.measurements.values() for record in each.records]
        return [*measured, *self.differences]

    @property
    def paired(self) -> bool:
        """Whether there are values sentence by sentence, by which models are compared."""
        first = next(iter(self.measurements.values()))
        return first.records[0].quantity in first.values


def measure(
    quantity: str,
    models: Mapping[str, nn.Module],
    batches: SampledBatches,
    stopping: Stopping,
    settings: Mapping[str, Setting],
    progress: Progress = silent,
    *,
    memory_bytes: int = MEMORY_BYTES,
) -> MeasuredModels:
    """Measure each model, by name; those after the first also get their paired difference from it.

    Of quantities that say which is flatter, models with other parameters than the first have no difference.
    `quantity` is named as in `quantity_named`. One that `StopsAnywhere` adds sentences, within `memory_bytes`
    beside the models, until every model's estimate meets the stopping criterion; interrupted, it returns the
    estimates on the sentences seen by all models, if these give an error bar. Others are measured on the
    first `stopping.sentences` or `FIXED_SENTENCES` sentences. Raises BadInput for a quantity that cannot be
    measured on a text, or not of a model.
    """
    found = quantity_named(quantity, stopping.sentences or FIXED_SENTENCES, batches.seed)
    name = short_name(quantity)
    if not takes(found, SampledBatches) or found.drawn_as is not FixedSentences:
        raise BadInput(f"{name} cannot be measured on a text; choose another quantity")
    refuse_unusable(models, batches)
    subjects = {each: Subject(each, batches.objective, settings, batches) for each in models}
    try:
        if isinstance(found, StopsAnywhere):
            measured = _until(name, found, models, batches, stopping, subjects, progress, memory_bytes)
        else:
            measured = _of_fixed_set(name, found, models, batches, subjects, progress)
    except NonFiniteScores as error:
        line = batches.reading.lines[error.sentence - 1]
        raise NonFiniteScores(error.sentence, f"{error.model}, the sentence of line {line},") from error
    means = getattr(found, "smaller_is", measured.smaller_is)
    differences = _differences(measured.measurements, models, subjects, batches.seed, means)
    over = getattr(found, "error_over", None)
    return replace(measured, differences=differences, error_over=over, smaller_is=means)


def measure_each(
    quantities: Sequence[str],
    models: Mapping[str, nn.Module],
    batches: SampledBatches,
    stopping: Stopping,
    settings: Mapping[str, Setting],
    progress: Progress,
    memory_bytes: int,
) -> tuple[list[MeasuredModels], dict[str, BadInput]]:
    """One quantity after the other, see `measure`; what there is of them if interrupted.

    Those of which the models or the text have no number do not take the others with them: why, by name.
    """
    measured: list[MeasuredModels] = []
    refused: dict[str, BadInput] = {}
    for quantity in dict.fromkeys(quantities):
        try:
            found = measure(
                quantity, models, batches, stopping, settings, progress, memory_bytes=memory_bytes
            )
        except KeyboardInterrupt:
            if not measured:
                raise
            break
        except BadInput as error:
            refused[short_name(quantity)] = error
            continue
        measured.append(found)
        if found.stopped == INTERRUPTED:
            break
    return measured, refused


def _differences(
    measurements: Mapping[str, Measurement],
    models: Mapping[str, nn.Module],
    subjects: Mapping[str, Subject[Any]],
    seed: int,
    smaller_is: str,
) -> list[Record]:
    """Those from the first, if there are values per sentence; where smaller is flatter, of its parameters."""
    built = {
        name: (type(model).__name__, [(each, p.shape) for each, p in trainable_parameters(model).items()])
        for name, model in models.items()
    }
    (first, of_first), *others = measurements.items()
    whole = of_first.records[0]
    return [
        subjects[other].record(f"{whole.quantity}_difference", difference, whole.unit, seed, reference=first)
        for other, of_other in others
        if smaller_is != FLATTER or built[other] == built[first]
        if (difference := of_other.minus(of_first)) is not None
    ]


def stops_anywhere(quantity: str) -> bool:
    """Whether the quantity of that name is measured until its error is as asked."""
    return isinstance(quantity_named(quantity, FIXED_SENTENCES, 0), StopsAnywhere)


def _until(
    name: str,
    quantity: StopsAnywhere,
    models: Mapping[str, nn.Module],
    batches: SampledBatches,
    stopping: Stopping,
    subjects: Mapping[str, Subject[SampledBatches]],
    progress: Progress,
    memory_bytes: int,
) -> MeasuredModels:
    running = {
        called: quantity.running(model, batches.objective, memory_bytes) for called, model in models.items()
    }
    each, task, expected = list(running.values()), name.replace("_", " "), len(batches.corpus)
    try:
        stopped = measure_until(each, batches, stopping, task=task, expected=expected, progress=progress)
    except NonFiniteScores as error:
        # Batches are added to one after the other: the first that lacks this one refused it.
        error.model = min(running, key=lambda called: running[called].sentences)
        raise
    except KeyboardInterrupt:
        if any(estimate.estimate is None for estimate in each):
            raise
        stopped = INTERRUPTED
    common = min(estimate.sentences for estimate in each)
    results = {called: one.result(stopped, common) for called, one in running.items()}
    measurements = {called: quantity.measurement(one, subjects[called]) for called, one in results.items()}
    return MeasuredModels(
        name,
        measurements,
        stopped,
        batches.reading.of_first(common),
        ways=Counter(getattr(next(iter(results.values())), "ways", {}).values()),
        apart={called: way for called, one in running.items() if (way := one.apart.way) is not None},
    )


def _of_fixed_set(
    name: str,
    quantity: Quantity,
    models: Mapping[str, nn.Module],
    batches: SampledBatches,
    subjects: Mapping[str, Subject[SampledBatches]],
    progress: Progress,
) -> MeasuredModels:
    objective: Any = batches.objective
    drawn: FixedSentences = quantity.draw(batches, objective, progress)
    sentences = sum(map(len, drawn.batches))
    measurements: dict[str, Measurement] = {}
    apart: dict[str, str] = {}
    for called, model in models.items():
        apart_objective, way = apart_throughout(model, batches.objective, drawn.batches)
        apart |= {called: way} if way is not None else {}
        subject = replace(subjects[called], objective=apart_objective)
        try:
            measurements[called] = quantity.measure(model, drawn, subject, progress_of(called, progress))
        except NonFiniteScores as error:
            error.model = called
            raise
    stopped = f"a fixed set of {sentences} sentences was measured"
    return MeasuredModels(name, measurements, stopped, batches.reading.of_first(sentences), apart=apart)


def refuse_unusable(models: Mapping[str, nn.Module], batches: SampledBatches) -> None:
    """Raise BadInput, by name, for a model that has no gradients, or sees the tokens it is to predict."""
    for first in islice(batches, 1):
        for name, model in models.items():
            placed = first.to(device_of(model))
            try:
                refuse_without_gradient(model, batches.objective, placed)
                if batches.prediction.left_to_right:
                    refuse_reading_ahead(model, batches.objective, placed)
            except BadInput as error:
                raise BadInput(f"{name}: {error}") from error


def progress_of(name: str, progress: Progress) -> Progress:
    """The progress report of one of several models, labelled with its name."""

    def report(task: str, completed: float, total: float, message: str = "") -> None:
        progress(f"{task} of {name}", completed, total, message)

    return report


def verdicts_on(
    measured: Sequence[MeasuredModels],
    models: Mapping[str, nn.Module],
    batches: SampledBatches,
    progress: Progress,
) -> list[PairVerdict]:
    """Whether each other model has the first's loss, and which is flatter, or lower, by what was measured.

    Of quantities that were measured completely and have a difference; none if it is interrupted. Losses are
    of the traces' sentences, or else the first quantity's. Traces are also compared relative to the weights,
    on the first `FIXED_SENTENCES` of them.
    """
    whole = {each.quantity: each for each in measured if each.paired and each.stopped != INTERRUPTED}
    if not whole:
        return []
    sentences = whole.get("fisher_trace", next(iter(whole.values()))).records[0].n
    named = {LOSS: ("pretraining_loss", sentences)}
    if "fisher_trace" in whole:
        fixed = min(sentences, FIXED_SENTENCES)
        named |= {TRACE: ("fisher_trace", sentences), NORMALISED: ("normalised_trace", fixed)}
    named |= {name: (name, sentences) for name in whole if name not in ("pretraining_loss", "fisher_trace")}
    try:
        found = {
            name: whole.get(quantity)
            or measure(quantity, models, batches, Stopping(sentences=number), {}, progress)
            for name, (quantity, number) in named.items()
        }
    except KeyboardInterrupt:
        return []  # measurements are shown without it
    first, *others = models
    asked: list[PairVerdict] = []
    for other in others:
        for name, each in found.items():
            of = each.measurements
            compared = any(record.checkpoint == other for record in each.differences)
            difference = of[other].minus(of[first]) if compared else None
            asked.append(asked_about(name, first, other, each.smaller_is, difference or OTHER_PARAMETERS))
    return answered(asked, {first: found[LOSS].measurements[first].records[0].value})
