"""Verdicts on pairs of checkpoints (same loss, flatter, better), based on confidence intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from isoloss.measurements.checkpoint_comparison import Comparison
from isoloss.measurements.compared_checkpoints import ACCURACIES, LOSS, LOWER, TRACE, not_comparable
from isoloss.measurements.flatter_verdict import (
    SAME_LOSS,
    interval_of_difference,
    judged,
    same_model,
    within_share,
)
from isoloss.measurements.measured_models import CONFIDENCE, about
from isoloss.results.estimate import Estimate
from isoloss.results.verdict import Verdict, above, below

OPEN = "open"
MAJORITY = "the majority"


def question_about(name: str, smaller_is: Mapping[str, str]) -> str:
    """What a measurement answers; of quantities of the text other than the loss, what a smaller value means.

    >>> question_about("probe", {}), question_about("trace", {"trace": "flatter"}), question_about("own", {})
    ('better', 'flatter', 'lower')
    """
    if name in ACCURACIES:
        return "better"
    return "same loss" if name == LOSS else smaller_is.get(name, LOWER)


@dataclass(frozen=True)
class PairVerdict:
    """The answer to a question about two checkpoints: yes, no, a name, open, or why it cannot be asked.

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


def verdicts(comparison: Comparison, same_loss: float = SAME_LOSS) -> list[PairVerdict]:
    """Every question about every pair with both measured, and each accuracy against the majority baseline.

    Losses are the same if the whole interval of their difference lies within `same_loss` of the first's, not
    the same if none of it does, and open otherwise. One checkpoint is flatter, lower or better if the whole
    interval lies on one side of zero. Each of the m intervals is a Student's t interval of confidence
    1 - (1 - `CONFIDENCE`) / m (Bonferroni), so that all of them hold simultaneously.
    """
    asked = [*_about_pairs(comparison), *_about_majority(comparison)]
    counted = sum(each.difference is not None for each in asked)
    confidence = 1 - (1 - CONFIDENCE) / max(1, counted)
    losses = {checkpoint.name: comparison.loss(checkpoint) for checkpoint in comparison.checkpoints}
    return [_answered(each, confidence, losses.get(each.first, math.nan), same_loss) for each in asked]


def pair_sentences(verdicts: Sequence[PairVerdict], same_loss: float) -> list[str]:
    """The conclusions for each pair, one paragraph each, and what would decide open questions."""
    asked = [each for each in verdicts if each.first != MAJORITY]
    pairs = [list(pair) for _, pair in groupby(asked, lambda each: (each.first, each.second))]
    return [f"{in_words(pair, same_loss)} {what_would_decide(pair)}".rstrip() for pair in pairs]


def in_words(verdicts: Sequence[PairVerdict], same_loss: float = SAME_LOSS) -> str:
    """The verdicts on one pair, in a sentence or two.

    >>> answers = {"loss": "yes", "trace": "b", "probe": "b"}
    >>> asked = {"loss": "same loss", "trace": "flatter", "probe": "better"}
    >>> in_words([PairVerdict(asked[name], name, "a", "b", answers[name]) for name in answers])
    'b against a: same loss to within 1 %: yes; flatter: b; better (probe): b. At one loss, the flatter ...'
    """
    answered = "; ".join(f"{_asked(each, same_loss)}: {each.answer}" for each in verdicts)
    sentence = f"{verdicts[0].second} against {verdicts[0].first}: {answered}."
    answers = {each.measured: each.answer for each in verdicts}
    pair = {verdicts[0].first, verdicts[0].second}
    better = {answers[name] for name in ACCURACIES if answers.get(name) in pair}
    if answers.get(LOSS) == "no" and (better or answers.get(TRACE) in pair):
        return f"{sentence} {_lower(verdicts)} has the lower loss, which alone may account for the rest."
    if answers.get(LOSS) == "yes" and answers.get(TRACE) in pair and len(better) == 1:
        agrees = "is" if answers[TRACE] in better else "is not"
        return f"{sentence} At one loss, the flatter {agrees} the better."
    return sentence


def what_would_decide(verdicts: Sequence[PairVerdict]) -> str:
    """What would decide the open questions on one pair, in a sentence; empty if none is open.

    >>> loss = PairVerdict("same loss", "loss", "a", "b", needed=1234.0)
    >>> what_would_decide([loss, PairVerdict("better", "probe", "a", "b", needed=99.0)])
    'Open questions would be decided by about 1,300 sentences (same loss) and by more test examples or ...'
    """
    open_ones = [each for each in verdicts if each.answer == OPEN]
    of_text = any(each.difference and each.measured not in ACCURACIES for each in verdicts)
    differences = [each.difference for each in verdicts if each.difference]
    if open_ones and of_text and (same := same_model(verdicts[0].first, verdicts[0].second, differences)):
        return f"{same[0].upper()}{same[1:]}."
    needs = []
    for each in open_ones:
        asked = each.question if each.measured in (LOSS, TRACE) else each.measured.replace("_", " ")
        if each.measured in ACCURACIES:
            needs.append(f"more test examples or seeds ({asked})")
        elif math.isfinite(each.needed) and each.measured in (LOSS, TRACE):
            needs.append(f"{about(each.needed)} sentences ({asked})")
        else:
            needs.append(f"more sentences or draws ({asked})")
    if not needs:
        return ""
    return f"Open questions would be decided by {' and by '.join(needs)}, if the differences are those found."


def _lower(verdicts: Sequence[PairVerdict]) -> str:
    """Which has the lower loss, if the two differ."""
    loss = next(each for each in verdicts if each.measured == LOSS)
    return loss.second if loss.high < 0 else loss.first


def _asked(verdict: PairVerdict, same_loss: float) -> str:
    if verdict.measured == LOSS:
        return f"same loss to within {100 * same_loss:.3g} %"
    return verdict.question if verdict.measured == TRACE else f"{verdict.question} ({verdict.measured})"


def _about_pairs(comparison: Comparison) -> list[PairVerdict]:
    asked = []
    for first, second in comparison.pairs:
        for name in comparison.names:
            question = question_about(name, comparison.smaller_is)
            verdict = PairVerdict(question, name, first.name, second.name)
            if (difference := comparison.difference(second, first, name)) is not None:
                asked.append(replace(verdict, difference=difference))
            elif all(comparison.measurement(each, name) is not None for each in (first, second)):
                why = not_comparable(name, first, second) or "it has no values per sentence to compare"
                asked.append(replace(verdict, answer=f"not asked, {why}"))
    return asked


def _about_majority(comparison: Comparison) -> list[PairVerdict]:
    return [
        PairVerdict("better", name, MAJORITY, checkpoint.name, difference=difference)
        for checkpoint in comparison.checkpoints
        for name in ACCURACIES
        if (difference := comparison.over_majority(checkpoint, name)) is not None
    ]


def _answered(asked: PairVerdict, confidence: float, loss: float, share: float) -> PairVerdict:
    if asked.difference is None:
        return asked
    interval = interval_of_accuracies if asked.measured in ACCURACIES else interval_of_difference
    low, high = interval(asked.difference, confidence)
    allowed = {LOSS: within_share(loss, share), **dict.fromkeys(ACCURACIES, above(0.0))}
    verdict, needed = judged(asked.difference, (low, high), allowed.get(asked.measured, below(0.0)))
    named = {Verdict.SUPPORTED: asked.second, Verdict.NOT_SUPPORTED: asked.first, Verdict.INCONCLUSIVE: OPEN}
    answer = verdict.answer if asked.measured == LOSS else named[verdict]
    return replace(asked, answer=answer, low=low, high=high, needed=needed if answer == OPEN else math.nan)


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
