"""Whether a model is flatter than another at the same loss, by intervals of differences on one text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from isoloss.curvature.fisher_trace import normalised_trace
from isoloss.curvature.stopping import Stopping
from isoloss.measurements.measured_models import (
    CONFIDENCE,
    FIXED_SENTENCES,
    INTERRUPTED,
    MeasuredModels,
    about,
    measure,
)
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.objectives.pretrained import apart_throughout
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate
from isoloss.results.verdict import Region, Verdict, below, within

SAME_LOSS = 0.01
"""Share of the loss by which two losses may differ and count as one. The paper's window, 3.204 to 3.208
nats, is 0.0012 wide in these terms, which takes more text to tell."""


@dataclass(frozen=True)
class FlatterVerdict:
    """The second model's numbers minus the first's, each judged by its interval of this `confidence`."""

    first: str
    second: str
    trace: Estimate
    normalised: Estimate
    loss: Estimate
    loss_of_first: float
    parameters: tuple[int, int]
    confidence: float = CONFIDENCE

    @property
    def answer(self) -> str:
        """Whether the second is flatter at the same loss: yes, no or open, or not asked.

        Yes or no takes the trace's whole interval beside zero, and the loss's within `SAME_LOSS`. It is not
        asked where the losses surely differ by more, or where the traces are not comparable.

        >>> errors = dict(normalised=Estimate(-1.0, 0.1, 99), loss=Estimate(0.0, 0.001, 99))
        >>> FlatterVerdict("a", "b", trace=Estimate(-5.0, 1.0, 99), **errors, loss_of_first=2.0,
        ...                parameters=(9, 9)).answer
        'yes'
        """
        losses, _ = self._same_loss
        if self.parameters[0] != self.parameters[1] or losses == Verdict.NOT_SUPPORTED:
            return "not asked"
        if losses == Verdict.INCONCLUSIVE:
            return "open"
        return self._below_zero(self.trace)[0].answer

    @property
    def warnings(self) -> list[str]:
        """Why the question is open or not asked, or the answer may not be about flatness itself."""
        found = []
        losses, _ = self._same_loss
        if losses != Verdict.SUPPORTED:
            differ = "differ" if losses == Verdict.NOT_SUPPORTED else "may differ"
            found.append(
                f"the losses {differ} by more than {100 * SAME_LOSS:g} %, which alone makes a model "
                "flatter or sharper"
            )
        flatter = {self._below_zero(each)[0] for each in (self.trace, self.normalised)}
        if flatter == {Verdict.SUPPORTED, Verdict.NOT_SUPPORTED}:
            found.append(
                "relative to the size of the weights it is the other way round, so that a rescaling may be "
                "all there is to it"
            )
        if self.parameters[0] != self.parameters[1]:
            found.append(
                f"the traces are sums over {self.parameters[0]:,} and {self.parameters[1]:,} parameters, "
                "which are not to be compared; compare models of one shape, such as a large one and a "
                "smaller one rewritten with as many weights (isoloss enlarge)"
            )
        return found

    @property
    def in_words(self) -> str:
        """The answer, and why it is not asked.

        >>> same = Estimate(0.0, 0.001, 99)
        >>> FlatterVerdict("a", "b", same, same, same, loss_of_first=2.0, parameters=(9, 8)).in_words
        'not asked, since they are of different sizes'
        """
        if self.answer != "not asked":
            return "undecided" if self.answer == "open" else self.answer
        apart = self.parameters[0] != self.parameters[1]
        return f"not asked, since {'they are of different sizes' if apart else 'the losses differ'}"

    @property
    def undecided(self) -> str | None:
        """What would decide an open question, as a sentence; None if it is not open, or nothing would."""
        needed, read = self.sentences_needed, f"{self.trace.n:,} sentences"
        if self.answer != "open":
            return None
        if same := same_model(self.first, self.second, (self.trace, self.normalised, self.loss)):
            return same
        if math.isinf(needed):
            return None
        shows = "show that the losses differ, and end the question" if self._losses_apart else "decide it"
        return f"undecided on {read}; {about(needed)} would {shows}, if the differences are those found"

    @property
    def sentences_needed(self) -> float:
        """About how many decide it, if the true differences are those found; infinite if none does.

        The losses come first, since the question is void where they surely differ.

        >>> known = dict(normalised=Estimate(-1.0, 0.1, 99), loss=Estimate(0.0, 0.001, 99))
        >>> verdict = FlatterVerdict("a", "b", trace=Estimate(-1.0, 1.0, 99), **known, loss_of_first=2.0,
        ...                          parameters=(9, 9))
        >>> verdict.answer, round(verdict.sentences_needed)
        ('open', 390)
        """
        (_, of_losses), (_, of_trace) = self._same_loss, self._below_zero(self.trace)
        return of_losses if self._losses_apart else max(of_losses, of_trace)

    @property
    def _losses_apart(self) -> bool:
        """Whether they differ too much, if their difference is the one found."""
        return abs(self.loss.value) > SAME_LOSS * abs(self.loss_of_first)

    @property
    def _same_loss(self) -> tuple[Verdict, float]:
        interval = interval_of_difference(self.loss, self.confidence)
        return judged(self.loss, interval, within_share(self.loss_of_first))

    def _below_zero(self, difference: Estimate) -> tuple[Verdict, float]:
        return judged(difference, interval_of_difference(difference, self.confidence), below(0.0))


def same_model(first: str, second: str, differences: Sequence[Estimate]) -> str | None:
    """That models are the same, if they differ in none of these, on no sentence; None otherwise.

    >>> same_model("a", "b", [Estimate(0.0, 0.0, 20)])
    'nothing differs on 20 sentences: a and b are the same model'
    """
    if any(each.value or each.standard_error for each in differences):
        return None
    return f"nothing differs on {differences[0].n:,} sentences: {first} and {second} are the same model"


def within_share(loss: float, share: float = SAME_LOSS) -> Region | None:
    """The differences of less than a `share` of the `loss`; None where there are none."""
    margin = share * abs(loss)
    return within(margin) if margin > 0 else None


def judged(
    difference: Estimate, interval: tuple[float, float], allowed: Region | None
) -> tuple[Verdict, float]:
    """Whether the interval of a difference lies in what is allowed, and how many units would decide that.

    Intervals fall as 1/√n. If it is decided, 0 units, else more than there are; if the difference lies on a
    bound, infinitely many.

    >>> judged(Estimate(-0.1, 0.1, 100), (-0.3, 0.1), below(0.0))
    (<Verdict.INCONCLUSIVE: 'inconclusive'>, 400.0)
    """
    verdict = Verdict.INCONCLUSIVE if allowed is None else allowed.verdict(*interval)
    if verdict != Verdict.INCONCLUSIVE:
        return verdict, 0.0
    half = (interval[1] - interval[0]) / 2
    gap = 0.0 if allowed is None else min(abs(difference.value - bound) for bound in allowed.bounds)
    return verdict, max(difference.n + 1, difference.n * (half / gap) ** 2) if gap > 0 else math.inf


def interval_of_difference(difference: Estimate, confidence: float) -> tuple[float, float]:
    """That of the estimate, but for models that are the same on all sentences: their difference is 0.

    >>> interval_of_difference(Estimate(0.0, 0.0, 2), 0.95)
    (0.0, 0.0)
    """
    if difference.value == difference.standard_error == 0:
        return 0.0, 0.0
    return difference.interval(confidence)


def verdicts_on_traces(
    measured: Sequence[MeasuredModels],
    models: Mapping[str, nn.Module],
    batches: SampledBatches,
    progress: Progress,
) -> list[FlatterVerdict]:
    """Those of several models whose traces were measured completely; none if they are interrupted."""
    for each in measured:
        if each.quantity == "fisher_trace" and len(models) > 1 and each.stopped != INTERRUPTED:
            try:
                return flatter_verdicts(models, batches, each, progress)
            except KeyboardInterrupt:
                break  # measurements are shown without it
    return []


def flatter_verdicts(
    models: Mapping[str, nn.Module],
    batches: SampledBatches,
    traces: MeasuredModels,
    progress: Progress = silent,
) -> list[FlatterVerdict]:
    """Compare each model after the first with the first, given traces measured on `batches`.

    Losses are of the same predictions; normalised traces of the first `FIXED_SENTENCES` sentences.
    """
    sentences = traces.records[0].n
    losses = measure("pretraining_loss", models, batches, Stopping(sentences=sentences), {}, progress)
    fixed, normalised = batches.first(min(sentences, FIXED_SENTENCES)), {}
    for name, model in models.items():
        objective, _ = apart_throughout(model, batches.objective, fixed)
        normalised[name] = normalised_trace(model, fixed, objective, seed=batches.seed, progress=progress)
    first, *others = models
    intervals = 3 * max(1, len(others))  # of trace, normalised trace and loss: Bonferroni
    confidence = 1 - (1 - CONFIDENCE) / intervals
    sizes = {
        name: int(each.records[0].settings["parameters"] or 0) for name, each in traces.measurements.items()
    }
    return [
        FlatterVerdict(
            first,
            other,
            traces.difference(other, first),
            normalised[other].difference(normalised[first]),
            losses.difference(other, first),
            losses.measurements[first].records[0].value,
            (sizes[first], sizes[other]),
            confidence,
        )
        for other in others
    ]
