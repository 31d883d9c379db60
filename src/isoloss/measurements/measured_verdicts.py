"""Verdicts on models measured on one text: which has the first's loss, and which is flatter."""

from collections.abc import Mapping, Sequence

from torch import nn

from isoloss.curvature.stopping import Stopping
from isoloss.measurements.measured_models import (
    FIXED_SENTENCES,
    INTERRUPTED,
    MeasuredModels,
    measure,
)
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.measurements.verdicts import (
    LOSS,
    NORMALISED,
    OTHER_PARAMETERS,
    TRACE,
    PairVerdict,
    answered,
    asked_about,
)
from isoloss.progress import Progress


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
        named |= {
            TRACE: ("fisher_trace", sentences),
            NORMALISED: ("normalised_trace", fixed),
        }
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
