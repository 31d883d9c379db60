"""Claims about a set of runs: a statistic, bounds fixed in advance, and a computed verdict each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from isoloss.experiments.statistics.cluster_bootstrap import BoundedEstimate
from isoloss.experiments.statistics.seed_bootstrap import SeedBootstrap, Statistic
from isoloss.progress import Progress, silent
from isoloss.results.verdict import Region, Verdict

CONFIDENCE = 0.95
"""Probability, at least, that none of one figure's effects is called supported or not supported wrongly; of
each premise by itself, that it is not."""

Kind = Literal["premise", "effect"]


@dataclass(frozen=True)
class Claim:
    """A sentence that the runs can contradict.

    The claim says that `statistic` lies in the region `claimed`. Everything here is fixed before any of the
    runs on which the claim is judged. A `premise` is a condition under which the effects are expected, such
    as a common loss, rather than a discovery, and is judged on its own. `reason` justifies a bound other than
    0 as the smallest effect of interest. `limit` is the largest possible value of the statistic: 1 for a
    correlation, 2 for the difference of two.
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


@dataclass(frozen=True)
class Judgement:
    """A claim with its effect, its interval over seeds, and the resulting verdict.

    `confidence` is the level at which Holm's procedure tests this claim, so that the interval excludes the
    bounds of the claimed region exactly if the verdict is not inconclusive; `p_value` is adjusted by the same
    procedure, to be compared with 1 - `CONFIDENCE`. `low` and `high` are nan if there are too few seeds for
    any bound. `seeds` counts those that contribute to the statistic, or all if it is undefined; `runs` counts
    all runs judged. `seeds_needed` is the number of seeds that would decide an inconclusive claim at its
    confidence if effect and spread stayed the same; None if it is decided, or if that number is too large to
    compute.
    """

    claim: Claim
    effect: float
    low: float
    high: float
    confidence: float
    runs: int
    seeds: int
    p_value: float
    verdict: Verdict
    seeds_needed: int | None = None


def judge(
    claims: Sequence[Claim], runs: Sequence[pl.DataFrame], seed: int = 0, progress: Progress = silent
) -> list[Judgement]:
    """Judge all `claims` of one figure on its `runs`, one frame per run with its seed in the column `seed`.

    The error of a statistic is computed over resamples of the seeds that contribute to it (`SeedBootstrap`);
    its interval and p-value are Student's (`ClusterEstimate`, on Fisher's scale if the claim has a limit).
    Effects are corrected for multiple testing by Holm's procedure, which bounds the probability of any wrong
    verdict, not that of any interval missing its target, by 1 - `CONFIDENCE`. Each premise is judged at
    `CONFIDENCE` on its own.

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
    estimates = []
    for done, claim in enumerate(claims, 1):
        estimates.append(BoundedEstimate(bootstrap.estimate(claim.statistic), claim.limit))
        progress("judging", done, len(claims), claim.name)
    # An interval excludes all bounds of a region if it excludes the nearest one.
    p_values = [
        max(estimate.p_value(bound) for bound in claim.claimed.bounds)
        for claim, estimate in zip(claims, estimates, strict=True)
    ]
    levels, adjusted = [1 - CONFIDENCE] * len(claims), list(p_values)
    effects = [place for place, claim in enumerate(claims) if claim.kind == "effect"]
    of_effects = [p_values[place] for place in effects]
    for place, level, p_value in zip(
        effects, holm_levels(of_effects, 1 - CONFIDENCE), holm_adjusted(of_effects), strict=True
    ):
        levels[place], adjusted[place] = level, p_value
    return [
        _judgement(claim, estimate, 1 - level, p_value, bootstrap)
        for claim, estimate, level, p_value in zip(claims, estimates, levels, adjusted, strict=True)
    ]


def _judgement(
    claim: Claim, estimate: BoundedEstimate, confidence: float, p_value: float, bootstrap: SeedBootstrap
) -> Judgement:
    low, high = estimate.interval(confidence)
    verdict = claim.claimed.verdict(low, high)
    open_still = verdict == Verdict.INCONCLUSIVE
    return Judgement(
        claim=claim,
        effect=estimate.value,
        low=low,
        high=high,
        confidence=confidence,
        runs=bootstrap.seeded,
        seeds=estimate.estimate.clusters,
        p_value=p_value,
        verdict=verdict,
        seeds_needed=estimate.clusters_to_decide(claim.claimed.bounds, confidence) if open_still else None,
    )


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: rejecting those of at most α has a family-wise error rate of at most α.

    The r-th smallest of k, counted from 0, is multiplied by k - r, and is at least the previous adjusted one
    and at most 1. The hypotheses may be dependent. This rejects everything that Bonferroni's correction does,
    and more.

    >>> holm_adjusted([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(_ascending(p_values)):
        largest = max(largest, (len(p_values) - rank) * p_values[place])
        adjusted[place] = min(1.0, largest)
    return adjusted


def holm_levels(p_values: Sequence[float], level: float) -> list[float]:
    """The level at which the procedure tests each hypothesis individually, for an overall `level`.

    It is level / (k - r) for the r-th smallest p-value, counted from 0, up to the first that exceeds its own
    level; later ones are retained with it, at its level. Hence a hypothesis is rejected if and only if its
    p-value is at most the level given here, and an interval of confidence 1 - that level agrees with the
    procedure.

    >>> holm_levels([0.01, 0.04, 0.03], 0.06)
    [0.02, 0.06, 0.03]
    >>> holm_levels([0.01, 0.04, 0.035], 0.06)
    [0.02, 0.03, 0.03]
    """
    levels, own, retained = [level] * len(p_values), level, False
    for rank, place in enumerate(_ascending(p_values)):
        if not retained:
            own = level / (len(p_values) - rank)
        levels[place] = own
        retained = retained or p_values[place] > own
    return levels


def _ascending(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=lambda place: p_values[place])
