"""Verdicts on pairs of models (same loss, flatter, better), based on confidence intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from torch import nn

from isoloss.curvature.fisher_trace import NormalisedTrace, normalised_trace
from isoloss.curvature.stopping import Stopping
from isoloss.measurements.compared_checkpoints import ACCURACIES, LOSS, TRACE, not_comparable
from isoloss.measurements.measured_models import FIXED_SENTENCES, MeasuredModels, measure
from isoloss.measurements.sampled_batches import SampledBatches
from isoloss.objectives.pretrained import apart_throughout
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate
from isoloss.results.verdict import Verdict, above, below, within

if TYPE_CHECKING:  # `isoloss flatness` compares no accuracies, and need not wait for what those take
    from isoloss.measurements.checkpoint_comparison import Comparison

SAME_LOSS = 0.01
"""Share of the loss by which two losses may differ and count as one. The paper's own window, 3.204 to 3.208
nats, is 0.0012 wide in these terms, which takes more text to tell."""

CONFIDENCE = 0.95
MOST_SENTENCES = 10**9
"""More than any text has: a question that takes as many is not settled by more text."""
"""Probability, at least, that all intervals of one call hold what they are intervals of, together."""

OPEN = "open"
MAJORITY = "the majority"

Question = Literal["same loss", "flatter", "better"]


def question_about(name: str) -> Question:
    """What a measurement answers: quantities of the text other than the loss are smaller where it is flatter.

    >>> question_about("trace"), question_about("probe")
    ('flatter', 'better')
    """
    if name in ACCURACIES:
        return "better"
    return "same loss" if name == LOSS else "flatter"


@dataclass(frozen=True)
class PairVerdict:
    """The answer to a question about two checkpoints: yes, no, a name, open, or why it cannot be asked.

    `measured` names the measurement (the loss, the trace, the probe, fine-tuning), and `difference` is the
    second's number minus the first's, with its interval from `low` to `high`. The first may be `MAJORITY`.
    """

    question: Question
    measured: str
    first: str
    second: str
    answer: str = OPEN
    difference: Estimate | None = None
    low: float = math.nan
    high: float = math.nan


def verdicts(comparison: "Comparison", same_loss: float = SAME_LOSS) -> list[PairVerdict]:
    """Every question about every pair with both measured, and each accuracy against the majority baseline.

    Losses are the same if the whole interval of their difference lies within `same_loss` of the first's, not
    the same if none of it does, and open otherwise. One checkpoint is flatter, or better, if the whole
    interval lies on one side of zero. Each of the m intervals is a Student's t interval of confidence
    1 - (1 - `CONFIDENCE`) / m (Bonferroni), so that all of them hold simultaneously: the more comparisons,
    the wider they are.
    """
    asked = [*_about_pairs(comparison), *_about_majority(comparison)]
    counted = sum(each.difference is not None for each in asked)
    confidence = 1 - (1 - CONFIDENCE) / max(1, counted)
    losses = {checkpoint.name: comparison.loss(checkpoint) for checkpoint in comparison.checkpoints}
    return [_answered(each, confidence, losses.get(each.first, math.nan), same_loss) for each in asked]


def in_words(verdicts: Sequence[PairVerdict], same_loss: float = SAME_LOSS) -> str:
    """The verdicts on one pair, in a sentence or two.

    >>> answers = {"loss": "yes", "trace": "b", "probe": "b"}
    >>> in_words([PairVerdict(question_about(name), name, "a", "b", answers[name]) for name in answers])
    'b against a: same loss to within 1 %: yes; flatter: b; better (probe): b. At one loss, the flatter ...'
    """
    said = "; ".join(f"{_asked(each, same_loss)}: {each.answer}" for each in verdicts)
    sentence = f"{verdicts[0].second} against {verdicts[0].first}: {said}."
    answers = {each.measured: each.answer for each in verdicts}
    pair = {verdicts[0].first, verdicts[0].second}
    better = {answers[name] for name in ACCURACIES if answers.get(name) in pair}
    if answers.get(LOSS) == "no" and (better or answers.get(TRACE) in pair):
        return f"{sentence} {_lower(verdicts)} has the lower loss, which alone may account for the rest."
    if answers.get(LOSS) == "yes" and answers.get(TRACE) in pair and len(better) == 1:
        agrees = "is" if answers[TRACE] in better else "is not"
        return f"{sentence} At one loss, the flatter {agrees} the better."
    return sentence


def _lower(verdicts: Sequence[PairVerdict]) -> str:
    """Which has the lower loss, if the two differ."""
    loss = next(each for each in verdicts if each.measured == LOSS)
    return loss.second if loss.high < 0 else loss.first


def _asked(verdict: PairVerdict, same_loss: float) -> str:
    match verdict.question:
        case "same loss":
            return f"same loss to within {100 * same_loss:.3g} %"
        case "better":
            return f"better ({verdict.measured})"
        case "flatter":
            return "flatter" if verdict.measured == TRACE else f"flatter ({verdict.measured})"


def _about_pairs(comparison: "Comparison") -> list[PairVerdict]:
    asked = []
    for first, second in comparison.pairs:
        for name in comparison.names:
            verdict = PairVerdict(question_about(name), name, first.name, second.name)
            if (difference := comparison.difference(second, first, name)) is not None:
                asked.append(replace(verdict, difference=difference))
            elif all(comparison.measurement(each, name) is not None for each in (first, second)):
                why = not_comparable(name, first, second) or "it has no values per sentence to compare"
                asked.append(replace(verdict, answer=f"not asked, {why}"))
    return asked


def _about_majority(comparison: "Comparison") -> list[PairVerdict]:
    return [
        PairVerdict("better", name, MAJORITY, checkpoint.name, difference=difference)
        for checkpoint in comparison.checkpoints
        for name in ACCURACIES
        if (difference := comparison.over_majority(checkpoint, name)) is not None
    ]


def _answered(asked: PairVerdict, confidence: float, loss: float, same_loss: float) -> PairVerdict:
    if asked.difference is None:
        return asked
    interval = interval_of_accuracies if asked.question == "better" else interval_of_difference
    low, high = interval(asked.difference, confidence)
    named = {
        Verdict.SUPPORTED: asked.second,
        Verdict.NOT_SUPPORTED: asked.first,
        Verdict.INCONCLUSIVE: OPEN,
    }
    match asked.question:
        case "same loss":
            answer = same_loss_verdict((low, high), loss, same_loss).answer
        case "flatter":
            answer = named[below(0.0).verdict(low, high)]
        case "better":
            answer = named[above(0.0).verdict(low, high)]
    return replace(asked, answer=answer, low=low, high=high)


@dataclass(frozen=True)
class FlatterVerdict:
    """The second model's numbers minus the first's, on the same sentences, with errors of the differences.

    Each is judged by a Student's t interval with coverage `confidence`.
    """

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

        Yes or no takes two whole intervals: the trace's beside zero, and the loss's within `SAME_LOSS`.
        It is not asked where the losses surely differ by more, or where the traces are not comparable.

        >>> errors = dict(normalised=Estimate(-1.0, 0.1, 99), loss=Estimate(0.0, 0.001, 99))
        >>> FlatterVerdict("a", "b", trace=Estimate(-5.0, 1.0, 99), **errors, loss_of_first=2.0,
        ...                parameters=(9, 9)).answer
        'yes'
        """
        if self.parameters[0] != self.parameters[1] or self._losses == Verdict.NOT_SUPPORTED:
            return "not asked"
        if self._losses == Verdict.INCONCLUSIVE:
            return "open"
        return self._below_zero(self.trace).answer

    @property
    def warnings(self) -> list[str]:
        """Why the question is open or not asked, or the answer may not be about flatness itself."""
        found = []
        if self._losses != Verdict.SUPPORTED:
            differ = "differ" if self._losses == Verdict.NOT_SUPPORTED else "may differ"
            found.append(
                f"the losses {differ} by more than {100 * SAME_LOSS:g} %, which alone makes a model "
                "flatter or sharper"
            )
        flatter = {self._below_zero(self.trace), self._below_zero(self.normalised)}
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
    def undecided(self) -> str | None:
        """What would decide an open question, as a sentence; None if it is not open, or nothing would."""
        needed = self.sentences_needed
        if self.answer != "open" or math.isinf(needed):
            return None
        number = f"about {needed:,.0f}" if needed < MOST_SENTENCES else "more than a billion"
        return (
            f"undecided on {self.trace.n:,} sentences; {number} would decide it, if the differences are "
            "those found"
        )

    @property
    def sentences_needed(self) -> float:
        """About how many decide it, if the true differences are those found: intervals fall as 1/√n.

        The losses come first, since the question is void where they surely differ. Infinite if a difference
        lies where no number decides.

        >>> known = dict(normalised=Estimate(-1.0, 0.1, 99), loss=Estimate(0.0, 0.001, 99))
        >>> verdict = FlatterVerdict("a", "b", trace=Estimate(-1.0, 1.0, 99), **known, loss_of_first=2.0,
        ...                          parameters=(9, 9))
        >>> verdict.answer, round(verdict.sentences_needed)
        ('open', 390)
        """
        beyond = abs(self.loss.value) - SAME_LOSS * abs(self.loss_of_first)
        of_losses = of_trace = 0.0
        if self._losses == Verdict.INCONCLUSIVE:
            of_losses = self._needed(self.loss, abs(beyond))
        if self._below_zero(self.trace) == Verdict.INCONCLUSIVE:
            of_trace = self._needed(self.trace, abs(self.trace.value))
        return of_losses if beyond > 0 else max(of_losses, of_trace)

    def _needed(self, difference: Estimate, gap: float) -> float:
        """For an interval whose half is at most `gap`."""
        low, high = interval_of_difference(difference, self.confidence)
        return difference.n * ((high - low) / 2 / gap) ** 2 if gap > 0 else math.inf

    @property
    def _losses(self) -> Verdict:
        return same_loss_verdict(interval_of_difference(self.loss, self.confidence), self.loss_of_first)

    def _below_zero(self, difference: Estimate) -> Verdict:
        return below(0.0).verdict(*interval_of_difference(difference, self.confidence))


def same_loss_verdict(difference: tuple[float, float], loss: float, share: float = SAME_LOSS) -> Verdict:
    """Whether the whole interval of a difference lies within a `share` of the `loss`, some of it, or none.

    >>> str(same_loss_verdict((-0.001, 0.004), loss=2.0))
    'supported'
    """
    margin = share * abs(loss)
    return within(margin).verdict(*difference) if margin > 0 else Verdict.INCONCLUSIVE


def flatter_verdicts(
    models: Mapping[str, nn.Module],
    batches: SampledBatches,
    traces: MeasuredModels,
    progress: Progress = silent,
) -> list[FlatterVerdict]:
    """Compare each model after the first with the first, given traces measured on `batches`.

    The losses are on the same sentences and predictions as the traces; the normalised traces are on the first
    `FIXED_SENTENCES` of them.
    """
    sentences = traces.records[0].n
    losses = measure("pretraining_loss", models, batches, Stopping(sentences=sentences), {}, progress)
    fixed, normalised = batches.first(min(sentences, FIXED_SENTENCES)), {}
    for name, model in models.items():
        own, _ = apart_throughout(model, batches.objective, fixed)
        normalised[name] = normalised_trace(model, fixed, own, seed=batches.seed, progress=progress)
    first, *others = models
    intervals = 3 * max(1, len(others))  # of trace, normalised trace and loss: Bonferroni
    confidence = 1 - (1 - CONFIDENCE) / intervals
    return [_verdict(first, other, traces, losses, normalised, confidence) for other in others]


def _verdict(
    first: str,
    second: str,
    traces: MeasuredModels,
    losses: MeasuredModels,
    normalised: Mapping[str, NormalisedTrace],
    confidence: float,
) -> FlatterVerdict:
    sizes = (traces.measurements[name].records[0].settings["parameters"] for name in (first, second))
    return FlatterVerdict(
        first,
        second,
        traces.difference(second, first),
        normalised[second].difference(normalised[first]),
        losses.difference(second, first),
        losses.measurements[first].records[0].value,
        (int(next(sizes) or 0), int(next(sizes) or 0)),
        confidence,
    )


def interval_of_difference(difference: Estimate, confidence: float) -> tuple[float, float]:
    """That of the estimate, but for models that are the same on all sentences: their difference is 0.

    >>> interval_of_difference(Estimate(0.0, 0.0, 2), 0.95)
    (0.0, 0.0)
    """
    if difference.value == difference.standard_error == 0:
        return 0.0, 0.0
    return difference.interval(confidence)


def interval_of_accuracies(difference: Estimate, confidence: float) -> tuple[float, float]:
    """That of the estimate, or a nonparametric one if all n examples differ by the same, without any spread.

    With confidence c, at most a share p = 1 - (1 - c)^(1/n) of all examples differs by anything else, since n
    examples would otherwise include one (Clopper and Pearson 1934, for none of n). This shifts the mean by at
    most p (1 + |difference|).
    """
    if difference.standard_error > 0:
        return difference.interval(confidence)
    unseen = 1 - (1 - confidence) ** (1 / difference.n)
    reach = unseen * (1 + abs(difference.value))
    return max(difference.value - reach, -1.0), min(difference.value + reach, 1.0)
