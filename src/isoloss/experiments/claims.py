"""Claims about a set of runs, each with a computed verdict, and the claims that experiments share."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

import numpy as np
import polars as pl

from isoloss.experiments.statistics.along_runs import RANGE_OF_KL, MeanWithinRuns, divergence_over_entropy
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW
from isoloss.experiments.statistics.seed_bootstrap import SeedBootstrap, Statistic, by_seed
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate
from isoloss.results.verdict import Region, Verdict, below, holm_adjusted, holm_levels

CONFIDENCE = 0.95
"""Probability, at least, that none of one figure's effects is called supported or not supported wrongly; of
each premise by itself, that it is not."""

MOST_SEEDS = 1000
"""Beyond this many, how many are needed is not worth a number."""


class Question(StrEnum):
    """A question about language models of the same pre-training loss, which experiments' claims answer."""

    LOSS = "Does the loss converge?"
    LATER = "Is later better?"
    LARGER = "Is larger better?"
    ALGORITHM = "Does the algorithm matter?"
    FLATNESS = "Is flatter better?"
    THEORY = "Does the theory hold?"
    MATERIAL = "What are the languages and models?"


Kind = Literal["premise", "effect"]
"""What a claim is registered as."""
Role = Literal["premise", "effect", "withdrawn"]
"""What it is judged as."""


@dataclass(frozen=True)
class Claim:
    """A sentence that the runs can contradict.

    The claim says that `statistic` lies in the region `claimed`. Everything here is fixed before any of the
    runs on which the claim is judged. A `premise` is a condition under which the effects are expected, such
    as a common loss, rather than a discovery, and is judged on its own. `reason` justifies a bound other than
    0 as the smallest effect of interest. `limit` is the largest possible value of the statistic: 1 for a
    correlation, 2 for the difference of two; `lowest` the least, 0 for a range. `answers` is the question
    that it answers, its experiment's by default. `withdrawn` says why nothing is tested by it: its
    number is still shown, but it is no longer one of the effects.
    """

    name: str
    sentence: str
    paper: str
    measure: str
    unit: str
    claimed: Region
    statistic: Statistic
    kind: Kind = "effect"
    reason: str = ""
    limit: float = math.inf
    answers: Question | None = None
    withdrawn: str = ""
    lowest: float = -math.inf

    @property
    def role(self) -> Role:
        """Premise or effect, or neither any more."""
        return "withdrawn" if self.withdrawn else self.kind


@dataclass(frozen=True)
class Judgement:
    """A claim with the estimate of its effect over seeds.

    `confidence` is the level at which Holm's procedure tests this claim, so that the interval excludes the
    bounds of the claimed region exactly if the verdict is not inconclusive; `p_value` is adjusted by the same
    procedure, to be compared with 1 - `CONFIDENCE`. `family` counts the effects tested together, 1 for a
    premise, which is judged alone, and for what is withdrawn. `runs` counts all runs judged.
    """

    claim: Claim
    estimate: Estimate
    confidence: float
    p_value: float
    runs: int
    family: int = 1

    @property
    def effect(self) -> float:
        """The statistic of all runs."""
        return self.estimate.value

    @property
    def seeds(self) -> int:
        """How many seeds contribute to the statistic; all of them if it is undefined."""
        return self.estimate.n

    @property
    def low(self) -> float:
        """The lower end of the interval; nan if there are too few seeds for any bound."""
        return self._interval[0]

    @property
    def high(self) -> float:
        """The upper end of the interval; nan if there are too few seeds for any bound."""
        return self._interval[1]

    @property
    def verdict(self) -> Verdict:
        """Of the interval."""
        return self.claim.claimed.verdict(*self._interval)

    @property
    def seeds_needed(self) -> int | None:
        """The number of seeds that would decide an inconclusive claim, if effect and spread stayed the same.

        None if it is decided, if the spread is unknown, or if `MOST_SEEDS` would not suffice.
        """
        effect, error, seeds = self.effect, self.estimate.standard_error, self.seeds
        if self.verdict != Verdict.INCONCLUSIVE or not math.isfinite(error):
            return None
        for more in range(seeds, MOST_SEEDS + 1):
            supposed = Estimate(effect, error * math.sqrt(seeds / more), more)
            if _p_value(self.claim, supposed) <= 1 - self.confidence:
                return more
        return None

    @property
    def _interval(self) -> tuple[float, float]:
        return self.estimate.interval(self.confidence, self.claim.limit, self.claim.lowest)


def judge(
    claims: Sequence[Claim], runs: Sequence[pl.DataFrame], seed: int = 0, progress: Progress = silent
) -> list[Judgement]:
    """Judge all `claims` of one figure on its `runs`, one frame per run with its seed in the column `seed`.

    The error of a statistic is computed over resamples of the seeds that contribute to it (`SeedBootstrap`);
    its interval and p-value are those of `Estimate`, on a scale on which the statistic has no bounds. Effects
    are corrected for multiple testing by Holm's procedure, which bounds the probability of any wrong verdict,
    not that of any interval missing its target, by 1 - `CONFIDENCE`. They are one family: so the verdicts of
    an experiment are the same, whatever else is carried out with it. Each premise is judged at `CONFIDENCE`
    on its own, and so is what has been withdrawn.

    Frames without a seed, i.e. references, are in every resample. A claim is inconclusive if fewer than two
    seeds contribute, if its statistic is undefined, with all seeds or without a contributing one, and if it
    is exactly constant on too few seeds.

    Raises BadInput for a frame without a column `seed`, or with several seeds in it.

    >>> from isoloss.results.verdict import below
    >>> runs = [pl.DataFrame({"seed": seed, "trace": [9.0, 5.0 + seed / 9]}) for seed in (1, 2, 3)]
    >>> claim = Claim("falls", "It falls.", "", "mean change", "", below(0.0),
    ...               lambda runs: sum(run["trace"][-1] - run["trace"][0] for run in runs) / len(runs))
    >>> judged = judge([claim], runs)[0]
    >>> str(judged.verdict), round(judged.low, 2), round(judged.high, 2)
    ('supported', -4.05, -3.5)
    """
    bootstrap = SeedBootstrap.of(runs, seed)
    judged = []
    for done, claim in enumerate(claims, 1):
        estimate = bootstrap.estimate(claim.statistic)
        judged.append(Judgement(claim, estimate, CONFIDENCE, _p_value(claim, estimate), bootstrap.seeded))
        progress("judging", done, len(claims), claim.name)
    effects = [place for place, claim in enumerate(claims) if claim.role == "effect"]
    p_values = [judged[place].p_value for place in effects]
    levels, adjusted = holm_levels(p_values, 1 - CONFIDENCE), holm_adjusted(p_values)
    for place, level, p_value in zip(effects, levels, adjusted, strict=True):
        judged[place] = replace(judged[place], confidence=1 - level, p_value=p_value, family=len(effects))
    return judged


def decided_in_one_family(judgements: Sequence[Judgement]) -> int:
    """How many of the effects would be decided, were all of them tested together by Holm's procedure."""
    p_values = [_p_value(each.claim, each.estimate) for each in judgements if each.claim.role == "effect"]
    levels = holm_levels(p_values, 1 - CONFIDENCE)
    return sum(p_value <= level for p_value, level in zip(p_values, levels, strict=True))


def _p_value(claim: Claim, estimate: Estimate) -> float:
    """An interval excludes all bounds of a region if it excludes the nearest one."""
    return max(estimate.p_value(bound, claim.limit, claim.lowest) for bound in claim.claimed.bounds)


ASSOCIATION = 0.25
"""Smallest difference of rank correlations, and smallest rank correlation, that counts as “much better” or
as an association."""
WHY_ASSOCIATION = (
    "half of the way from no association to a strong one (Spearman 0.5); the paper shows a far larger one "
    "and gives no number"
)
UNDECIDABLE = "undecidable by design"
"""Of a claim that no measurement could fulfil, or fail, whatever accuracy follows; see `claim_ranges`."""
KL_WINDOW = 0.25
"""Widest spread of KL(distribution || model), in doublings, that still counts as one KL."""
WHY_KL_WINDOW = (
    "accuracy fell by 3.7 percentage points for each doubling of KL within AdamW's runs of an earlier round, "
    "so that it then moves by less than one"
)
FALL_OF_ONE_KL = 1 - 2**-KL_WINDOW
"""The same as a share of KL by which it falls."""
SLOPE_AT_ONE_KL = -1.0
"""Smallest slope, in percentage points per doubling of the trace, that counts as an effect of flatness."""
WHY_SLOPE = (
    "about a quarter of what accuracy fell by for each doubling of KL within AdamW's runs of an earlier round"
)
LOSSES_IN_PAPER = "losses 3.204 to 3.208 nats, a spread of 0.12 % (Figure 1)"
KL_IN_PAPER = (
    "“Even with the log of the KL divergence [...] the models are saturating” (A.7; no number given)"
)
DIVERGENCE_WINDOW = 0.004
"""Largest share of the entropy that counts as having converged as the paper's models did."""
WHY_WINDOW = "four times the paper's 0.12 %, and about what its losses lie above its entropy"


def gap_at_the_end(runs: Sequence[pl.DataFrame]) -> float:
    """Mean over seeds of the largest minus the smallest final loss of a seed's runs, over their mean."""
    last = ([run["loss"][-1] for run in own] for own in by_seed(runs).values())
    gaps = [float(np.ptp(losses) / np.mean(losses)) for losses in last if len(losses) > 1]
    return float(np.mean(gaps)) if gaps else float("nan")


def premise_of_loss(
    name: str,
    sentence: str,
    paper: str,
    measure: str,
    statistic: Statistic,
    bound: float = LOSS_WINDOW,
    reason: str = WHY_WINDOW,
    unit: str = "",
) -> Claim:
    """A premise on the loss or what it hides: `statistic`, which cannot be below 0, is below `bound`."""
    return Claim(
        name=name,
        answers=Question.LOSS,
        sentence=sentence,
        paper=paper,
        measure=measure,
        unit=unit,
        claimed=below(bound),
        statistic=statistic,
        kind="premise",
        reason=reason,
        lowest=0.0,
    )


def final_loss_is_one(name: str, models: str) -> Claim:
    """The premise that a seed's runs end at one loss; `models` in words, such as "models of all decays"."""
    return premise_of_loss(
        name,
        sentence=f"At the end {models} have the same pre-training loss.",
        paper=LOSSES_IN_PAPER,
        measure="mean over seeds of largest minus smallest loss at the last checkpoint, over their mean",
        statistic=gap_at_the_end,
        reason="four times the paper's 0.12 %",
    )


def one_kl(name: str, whose: str, statistic: Statistic = RANGE_OF_KL) -> Claim:
    """The premise that within a run KL stays what it is; `whose` begins the sentence, such as "PCFG: "."""
    sentence = f"{whose}Within a run, after saturation, KL(distribution || model) no longer changes."
    measure = "mean over runs of log2(largest / smallest KL) of the run's checkpoints"
    window = (KL_WINDOW, WHY_KL_WINDOW, "doublings")
    return premise_of_loss(name, sentence, KL_IN_PAPER, measure, statistic, *window)


def sizes_have_one_kl(name: str, whose: str, statistic: Statistic) -> Claim:
    """The premise that models of all sizes end at one KL."""
    sentence = f"{whose}At the end KL(distribution || model) is the same for models of all sizes."
    measure = "log2(largest / smallest) of the widths' mean KL at the last checkpoint"
    window = (KL_WINDOW, WHY_KL_WINDOW, "doublings")
    return premise_of_loss(name, sentence, KL_IN_PAPER, measure, statistic, *window)


def flatter_is_better_at_one_kl(name: str, sentence: str, among: str, statistic: Statistic) -> Claim:
    """That at one KL accuracy rises as the trace falls; `among` are the regression's points, in words."""
    return Claim(
        name=name,
        answers=Question.FLATNESS,
        sentence=sentence,
        paper="flatness explains what the loss does not (Section 4; no number given at one KL)",
        measure=f"slope of accuracy over log2(trace) beside log2(KL), by least squares over {among}",
        unit="percentage points per doubling of the trace",
        claimed=below(SLOPE_AT_ONE_KL),
        statistic=statistic,
        reason=WHY_SLOPE,
    )


def final_loss_is_near(name: str) -> Claim:
    """The premise that runs end near the distribution, as those of the paper do."""
    return premise_of_loss(
        name,
        sentence="At the end of training, KL(distribution || model) is small beside the entropy.",
        paper="losses 3.204 to 3.208 over an entropy of 3.196 nats: 0.25 to 0.38 % (Figures 1 and 2)",
        measure="mean over runs of KL(distribution || model) at the last checkpoint, over its entropy",
        statistic=MeanWithinRuns(divergence_over_entropy),
        bound=DIVERGENCE_WINDOW,
        reason="the largest share in the paper",
    )
