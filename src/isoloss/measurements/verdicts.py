"""Verdicts on two models: are their losses the same, which is flatter, which is better; by intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from scipy.optimize import bisect

from isoloss.results.estimate import CONFIDENCE, Estimate
from isoloss.results.verdict import Region, Verdict, above, below, within

LOSS, TRACE, NORMALISED, PROBE, FINE_TUNING = "loss", "trace", "normalised_trace", "probe", "fine-tuning"
ACCURACIES = (PROBE, FINE_TUNING)
"""What is measured of models, as a verdict names it; other quantities of a text have their own names."""

SAME_LOSS = 0.01
"""Share of the loss by which two losses may differ and count as one. The paper's window, 3.204 to 3.208
nats, is 0.0012 wide in these terms, which takes more text to tell."""
OPEN = "open"
MAJORITY = "the majority"
OTHER_PARAMETERS = "their parameters are not the same ones"
SIZES = (
    "The trace is a sum over parameters. Models of different sizes or architectures have different "
    "parameters, so their traces are shown side by side but not compared: a model twice as wide has four "
    "times as many weights. isoloss enlarge writes a small BERT or pre-LN RoBERTa with the parameters of a "
    "large one; an adapter can be compared with its base once it is merged."
)
MOST_SENTENCES = 10**9
"""More than any text has: a question that takes as many is not settled by more text."""


@dataclass(frozen=True)
class PairVerdict:
    """The answer to a question about two models: yes, no, a name, open, or why it cannot be asked.

    `difference` is the second's number of what is `measured` minus the first's (which may be `MAJORITY`),
    with its interval from `low` to `high`. About `needed` units, such as sentences, would decide an open
    question, if the difference is the one that was found; infinitely many if none would.
    """

    question: str
    measured: str
    first: str
    second: str
    answer: str = OPEN
    difference: Estimate | None = None
    low: float = math.nan
    high: float = math.nan
    needed: float = math.nan

    @property
    def is_open(self) -> bool:
        """Whether it is undecided; not where the interval names a model that is called so."""
        decided = self.measured != LOSS and (self.low > 0 or self.high < 0)
        return self.answer == OPEN and not decided

    @property
    def as_json(self) -> dict[str, Any]:
        """The fields; None for numbers of a question not asked, or that nothing bounds or decides."""
        known = asdict(self)
        unknown = [name for name in ("low", "high", "needed") if not math.isfinite(known[name])]
        return known | dict.fromkeys(unknown)


def asked_about(name: str, first: str, second: str, smaller_is: str, found: Estimate | str) -> PairVerdict:
    """What a measurement asks of two models, by the difference that was `found`, or why it is not asked.

    Of quantities of the text other than the loss, it is what a smaller value means.

    >>> asked_about("probe", "a", "b", "lower", Estimate(0.1, 0.2, 9)).question
    'better'
    >>> asked_about("trace", "a", "b", "flatter", OTHER_PARAMETERS).answer
    'not asked, their parameters are not the same ones'
    """
    question = "better" if name in ACCURACIES else "same loss" if name == LOSS else smaller_is
    asked = PairVerdict(question, name, first, second)
    if isinstance(found, str):
        return replace(asked, answer=f"not asked, {found}")
    return replace(asked, difference=found)


def answered(
    asked: Sequence[PairVerdict], losses: Mapping[str, float], same_loss: float = SAME_LOSS
) -> list[PairVerdict]:
    """The questions with the answers that the intervals of their differences give; `losses` are by model.

    Losses are the same if the whole interval of their difference lies within `same_loss` of the first's, not
    the same if none of it does, and open otherwise. One model is flatter, lower or better if the whole
    interval lies on one side of zero. Each of the m intervals is a Student's t interval of confidence
    1 - (1 - `CONFIDENCE`) / m (Bonferroni), so that all of them hold simultaneously. A question without a
    difference is left as it is.

    >>> loss = PairVerdict("same loss", "loss", "a", "b", difference=Estimate(0.001, 0.002, 200))
    >>> flatter = PairVerdict("flatter", "trace", "a", "b", difference=Estimate(-5.0, 1.0, 200))
    >>> [each.answer for each in answered([loss, flatter], {"a": 2.0, "b": 2.001})]
    ['yes', 'b']
    """
    counted = sum(each.difference is not None for each in asked)
    confidence = 1 - (1 - CONFIDENCE) / max(1, counted)
    return [_answered(each, confidence, losses.get(each.first, math.nan), same_loss) for each in asked]


def _answered(asked: PairVerdict, confidence: float, loss: float, share: float) -> PairVerdict:
    if asked.difference is None:
        return asked
    interval = interval_of_accuracies if asked.measured in ACCURACIES else interval_of_difference
    low, high = interval(asked.difference, confidence)
    region: Region | None = above(0.0) if asked.measured in ACCURACIES else below(0.0)
    if asked.measured == LOSS:
        margin = share * abs(loss)
        region = within(margin) if margin > 0 else None
    verdict, needed = judged(asked.difference, (low, high), region, confidence)
    named = {Verdict.SUPPORTED: asked.second, Verdict.NOT_SUPPORTED: asked.first, Verdict.INCONCLUSIVE: OPEN}
    question, answer = asked.question, named[verdict]
    if asked.measured == LOSS:
        question, answer = f"{question} to within {100 * share:.3g} %", verdict.answer
    needed = needed if answer == OPEN else math.nan
    return replace(asked, question=question, answer=answer, low=low, high=high, needed=needed)


def judged(
    difference: Estimate, interval: tuple[float, float], allowed: Region | None, confidence: float
) -> tuple[Verdict, float]:
    """Whether the interval of a difference lies in what is allowed, and how many units would decide that.

    With N times as many of all that it is a mean over, its standard error falls by √N, and its degrees of
    freedom f become N (f + 1) - 1, which widens intervals over few seeds less. If it is decided, 0 units,
    else more than there are; if the difference lies on a bound, infinitely many.

    >>> difference = Estimate(-0.1, 0.1, 100)
    >>> verdict, needed = judged(difference, difference.interval(0.95), below(0.0), 0.95)
    >>> str(verdict), round(needed)
    ('inconclusive', 387)
    """
    verdict = Verdict.INCONCLUSIVE if allowed is None else allowed.verdict(*interval)
    if verdict != Verdict.INCONCLUSIVE:
        return verdict, 0.0
    gap = 0.0 if allowed is None else min(abs(difference.value - bound) for bound in allowed.bounds)
    half = (interval[1] - interval[0]) / 2
    if not half < MOST_SENTENCES * gap:  # nor if either is no number
        return verdict, math.inf
    most = max(1.0, half / gap) ** 2
    beyond = partial(_reach_beyond, difference, gap, confidence)
    times = bisect(beyond, 1.0, most, rtol=1e-6) if beyond(1.0) > 0 > beyond(most) else most
    return verdict, max(difference.n + 1, difference.n * times)


def _reach_beyond(difference: Estimate, gap: float, confidence: float, times: float) -> float:
    """By how much an interval over `times` as many units would reach beyond a bound at that gap."""
    freedom = times * (difference.degrees_of_freedom + 1) - 1
    error = difference.standard_error / math.sqrt(times)
    low, high = replace(difference, standard_error=error, degrees_of_freedom=freedom).interval(confidence)
    return (high - low) / 2 - gap


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


def conclusions(verdicts: Sequence[PairVerdict]) -> list[str]:
    """What is concluded on each pair and what would decide it, a paragraph each, and why sizes matter."""
    asked = [each for each in verdicts if each.first != MAJORITY]
    pairs = [list(pair) for _, pair in groupby(asked, lambda each: (each.first, each.second))]
    sentences = [f"{in_words(pair)} {what_would_decide(pair)}".rstrip() for pair in pairs]
    return sentences + [SIZES] * any(each.answer.endswith(OTHER_PARAMETERS) for each in asked)


def in_words(verdicts: Sequence[PairVerdict]) -> str:
    """The verdicts on one pair with the differences, in a sentence, and what they mean together.

    >>> known = {"loss": Estimate(0.001, 0.002, 200), "trace": Estimate(-5.0, 1.0, 200)}
    >>> asked = {"loss": "same loss", "trace": "flatter"}
    >>> pair = [PairVerdict(asked[name], name, "a", "b", difference=known[name]) for name in known]
    >>> in_words(answered(pair, {"a": 2.0}))
    'b against a: same loss to within 1 %: yes (0.0010 ± 0.0020); flatter: b (-5.0 ± 1.0).'
    """
    sentences = "; ".join(map(_question_and_answer, verdicts))
    sentence = f"{verdicts[0].second} against {verdicts[0].first}: {sentences}."
    return " ".join([sentence, *_taken_together(verdicts)])


def _question_and_answer(verdict: PairVerdict) -> str:
    of = "" if verdict.measured in (LOSS, TRACE) else f" ({verdict.measured})"
    difference = "" if verdict.difference is None else f" ({verdict.difference})"
    return f"{verdict.question}{of}: {verdict.answer}{difference}"


def _taken_together(verdicts: Sequence[PairVerdict]) -> list[str]:
    """What the answers on one pair say of one another, a sentence each."""
    answers = {each.measured: None if each.is_open else each.answer for each in verdicts}
    pair = {verdicts[0].first, verdicts[0].second}
    better = {answers[name] for name in ACCURACIES if answers.get(name) in pair}
    flatter = answers.get(TRACE) if answers.get(TRACE) in pair else None
    found = []
    if better or flatter:
        if answers.get(LOSS) == "no":
            found.append(f"{_lower(verdicts)} has the lower loss, which alone may account for the rest.")
        if any(each.measured == LOSS and each.is_open for each in verdicts):
            found.append("The losses may differ by more, which alone may account for the rest.")
    if answers.get(LOSS) == "yes" and flatter and len(better) == 1:
        found.append(f"At one loss, the flatter {'is' if flatter in better else 'is not'} the better.")
    if flatter and {flatter, answers.get(NORMALISED)} == pair:
        found.append(
            "Relative to the size of the weights it is the other way round, so that a rescaling may be all "
            "there is to it."
        )
    return found


def what_would_decide(verdicts: Sequence[PairVerdict]) -> str:
    """What would decide the open questions on one pair, in a sentence; empty if none is open.

    Not those on the `NORMALISED` trace where there is one on the trace, which it only checks.

    >>> loss = PairVerdict("same loss", "loss", "a", "b", needed=1234.0)
    >>> probe = PairVerdict("better", "probe", "a", "b", difference=Estimate(0.1, 0.2, 50), needed=640.0)
    >>> what_would_decide([loss, probe])
    'Open questions would be decided by about 1,300 sentences (same loss) and by about 13 times as many ...'
    """
    checks = NORMALISED if any(each.measured == TRACE for each in verdicts) else None
    open_ones = [each for each in verdicts if each.is_open and each.measured != checks]
    if open_ones and (same := _same_model(verdicts)):
        return same
    needs = []
    for each in open_ones:
        asked = each.question if each.measured in (LOSS, TRACE) else each.measured.replace("_", " ")
        if math.isfinite(each.needed) and each.measured in (LOSS, TRACE):
            needs.append(f"{about(each.needed)} sentences ({asked})")
        else:
            units = "test examples and seeds" if each.measured in ACCURACIES else "sentences or draws"
            needs.append(f"{_how_many(each)} {units} ({asked})")
    if not needs:
        return ""
    return f"Open questions would be decided by {' and by '.join(needs)}, if the differences are those found."


def _how_many(verdict: PairVerdict) -> str:
    """How many times as many units as its difference has would decide it; "more" if that is not known."""
    if verdict.difference is None or not verdict.needed < MOST_SENTENCES:
        return "more"
    times = verdict.needed / verdict.difference.n
    return f"{about(times) if times > 10 else f'about {math.ceil(10 * times) / 10:g}'} times as many"


def about(sentences: float) -> str:
    """How many sentences, or times as many, would settle a question, in words: two digits, rounded up.

    >>> about(20.3), about(1234.2), about(MOST_SENTENCES)
    ('about 21', 'about 1,300', 'more than a billion')
    """
    if sentences >= MOST_SENTENCES:
        return "more than a billion"
    step = 10 ** max(0, len(str(math.ceil(sentences))) - 2)
    return f"about {math.ceil(sentences / step) * step:,}"


def _same_model(verdicts: Sequence[PairVerdict]) -> str:
    """That no sentence of a text tells two models apart, nor a task if there is one; empty if any does."""
    differences = {each.measured: each.difference for each in verdicts if each.difference is not None}
    if any(each.value or each.standard_error for each in differences.values()):
        return ""
    counts = [each.n for name, each in differences.items() if name not in ACCURACIES]
    names = f"{verdicts[0].first} and {verdicts[0].second}"
    return f"Nothing differs on {counts[0]:,} sentences: {names} are the same model." if counts else ""


def _lower(verdicts: Sequence[PairVerdict]) -> str:
    loss = next(each for each in verdicts if each.measured == LOSS)
    return loss.second if loss.high < 0 else loss.first
