"""Claims about a set of runs, each with a computed verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal, get_args

import polars as pl

from isoloss.errors import BadInput
from isoloss.experiments.statistics.seed_bootstrap import SeedBootstrap, Statistic
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate
from isoloss.results.record import in_brief
from isoloss.results.verdict import Region, Verdict, holm_adjusted, holm_levels

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
class Reading:
    """How a statistic is written for readers: `factor` times its number, then `sign`, then `unit`."""

    factor: float
    sign: str
    unit: str

    def numbers(self, effect: float, low: float, high: float) -> str:
        """A finite effect with its interval, if that is bounded, and without the unit.

        >>> reading("of the trace's fall", "effect").numbers(0.11, 0.047, 0.18)
        '11 % (4.7 to 18)'
        >>> reading("of the price", "effect").numbers(12.341, 9.1, 15.6)
        '1,234 % (910 to 1,560)'
        """
        value, least, most = (self.factor * number for number in (effect, low, high))
        interval = f" ({in_brief(least)} to {in_brief(most)})" if math.isfinite(least + most) else ""
        return f"{in_brief(value)}{self.sign}{interval}"

    def region(self, claimed: Region) -> str:
        """The region claimed, such as “below 25 %”."""
        return f"{claimed.times(self.factor)}{self.sign}"


def reading(unit: str, kind: str) -> Reading:
    """Shares are written in per cent: those of something, and premises without a unit, which are shares.

    >>> reading("of the trace's fall", "effect")
    Reading(factor=100.0, sign=' %', unit="of the trace's fall")
    >>> reading("nats", "effect")
    Reading(factor=1.0, sign='', unit='nats')
    """
    if unit.startswith("of ") or (not unit and kind == "premise"):
        return Reading(100.0, " %", unit)
    return Reading(1.0, "", unit)


@dataclass(frozen=True)
class Claim:
    """A sentence that the runs can contradict.

    The claim says that `statistic` lies in the region `claimed`. Everything here is fixed before any of the
    runs on which the claim is judged. A `premise` is a condition under which the effects are expected, such
    as a common loss, rather than a discovery, and is judged on its own. `reason` justifies a bound other than
    0 as the smallest effect of interest. `limit` is the largest possible value of the statistic: 1 for a
    correlation, 2 for the difference of two; `lowest` the least, 0 for a range. A `unit` that
    begins with “of” is what the statistic is a share of. `answers` is the question
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

    def __post_init__(self) -> None:
        claimed: object = self.claimed
        if not isinstance(claimed, Region):
            raise BadInput(f"the claim {self.name} must claim a range, such as above(0.0), not {claimed!r}")
        if self.kind not in get_args(Kind):
            raise BadInput(f"the kind of the claim {self.name} is one of {get_args(Kind)}, not {self.kind!r}")
        unit: object = self.unit
        if not isinstance(unit, str):
            raise BadInput(f"the unit of the claim {self.name} is a text, such as 'nats', not {unit!r}")
        if not callable(self.statistic):
            raise BadInput(
                f"the statistic of the claim {self.name} is a function of the runs' tables, not "
                f"{self.statistic!r}"
            )

    @property
    def reading(self) -> "Reading":
        """How its numbers are written for readers."""
        return reading(self.unit, self.kind)

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
    def why_undefined(self) -> str:
        """Why there is no number, as a clause; empty where there is one."""
        if math.isfinite(self.effect):
            return ""
        if not self.runs:
            return "not measured"
        if math.isinf(self.effect):
            return "undefined: the statistic is infinite"
        return "undefined: the runs lack what is compared, such as checkpoints of one loss"

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
    claims: Sequence[Claim], runs: Sequence[pl.DataFrame], progress: Progress = silent
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
    is exactly constant on too few seeds. Means over seeds or pairs leave out what is undefined of one.

    Raises BadInput for a frame without a column `seed`, or with several seeds in it.

    >>> from isoloss.results.verdict import below
    >>> runs = [pl.DataFrame({"seed": seed, "trace": [9.0, 5.0 + seed / 9]}) for seed in (1, 2, 3)]
    >>> claim = Claim("falls", "It falls.", "", "mean change", "", below(0.0),
    ...               lambda runs: sum(run["trace"][-1] - run["trace"][0] for run in runs) / len(runs))
    >>> judged = judge([claim], runs)[0]
    >>> str(judged.verdict), round(judged.low, 2), round(judged.high, 2)
    ('supported', -4.05, -3.5)
    """
    bootstrap = SeedBootstrap.of(runs)
    judged = []
    for done, claim in enumerate(claims, 1):
        estimate = bootstrap.estimate(claim.statistic)
        judged.append(Judgement(claim, estimate, CONFIDENCE, _p_value(claim, estimate), bootstrap.seeded))
        progress("judging", done, len(claims), claim.name)
    effects = [place for place, claim in enumerate(claims) if claim.role == "effect"]
    p_values = [judged[place].p_value for place in effects]
    levels, adjusted = holm_levels(p_values, 1 - CONFIDENCE), holm_adjusted(p_values)
    for place, level, p_value in zip(effects, levels, adjusted, strict=True):
        judged[place] = replace(judged[place], confidence=1 - level, p_value=p_value)
    return judged


def decided_in_one_family(judgements: Sequence[Judgement]) -> int:
    """How many of the effects would be decided, were all of them tested together by Holm's procedure."""
    p_values = [_p_value(each.claim, each.estimate) for each in judgements if each.claim.role == "effect"]
    levels = holm_levels(p_values, 1 - CONFIDENCE)
    return sum(p_value <= level for p_value, level in zip(p_values, levels, strict=True))


def _p_value(claim: Claim, estimate: Estimate) -> float:
    """An interval excludes all bounds of a region if it excludes the nearest one."""
    return max(estimate.p_value(bound, claim.limit, claim.lowest) for bound in claim.claimed.bounds)
