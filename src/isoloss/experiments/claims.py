"""Claims about a set of runs: each a statistic, a threshold fixed beforehand, and a computed verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from isoloss.experiments.cluster_bootstrap import ClusterEstimate
from isoloss.experiments.holm import holm_adjusted, holm_levels
from isoloss.experiments.rank_correlation import rank_correlation as rank_correlation
from isoloss.experiments.seed_bootstrap import SeedBootstrap
from isoloss.experiments.seed_bootstrap import Statistic as Statistic
from isoloss.verdict import Verdict

CONFIDENCE = 0.95
"""Probability, at least, that none of one figure's claims is called supported or not supported wrongly."""


@dataclass(frozen=True)
class Claim:
    """A sentence that the runs can contradict.

    The claim says that `statistic` lies above `threshold` (below it, when `above` is false). Everything
    here is fixed before any run that the claim is judged on.
    """

    name: str
    sentence: str
    paper: str
    measure: str
    unit: str
    threshold: float
    above: bool
    statistic: Statistic


@dataclass(frozen=True)
class Judgement:
    """A claim with its effect, its interval over seeds, and the verdict that follows from them.

    `confidence` is that at which Holm's procedure comes to test this claim, so that the interval leaves the
    threshold out exactly where the verdict is not inconclusive; `p_value` is adjusted by the same procedure,
    and compares with 1 - `CONFIDENCE`. `low` and `high` are nan where the seeds, being so few, bound nothing.
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


def judge(claims: Sequence[Claim], runs: Sequence[pl.DataFrame], seed: int = 0) -> list[Judgement]:
    """Judge all `claims` of one figure on its `runs`, a frame a run with its seed in the column `seed`.

    The error of a statistic is that over resamples of whole seeds (`SeedBootstrap`), its interval and p-value
    are Student's (`ClusterEstimate`), and the claims are corrected for being several by Holm's procedure: it
    keeps the probability of any wrong verdict, not that of any interval missing, to 1 - `CONFIDENCE`.
    Frames with no seed, references, are in every resample. A claim is inconclusive with fewer than two seeds,
    where its statistic is undefined, and where that is exactly the same on seeds too few to say so much.

    Raises BadInput for a frame without a column `seed`, or with several seeds in it.

    >>> runs = [pl.DataFrame({"seed": seed, "trace": [9.0, 5.0 + seed / 9]}) for seed in (1, 2, 3)]
    >>> claim = Claim("falls", "It falls.", "", "mean change", "", 0.0, False,
    ...               lambda runs: sum(run["trace"][-1] - run["trace"][0] for run in runs) / len(runs))
    >>> judged = judge([claim], runs)[0]
    >>> str(judged.verdict), round(judged.low, 2), round(judged.high, 2)
    ('supported', -4.05, -3.5)
    """
    bootstrap = SeedBootstrap.of(runs, seed)
    estimates = [bootstrap.estimate(claim.statistic) for claim in claims]
    p_values = [estimate.p_value(claim.threshold) for claim, estimate in zip(claims, estimates, strict=True)]
    levels, adjusted = holm_levels(p_values, 1 - CONFIDENCE), holm_adjusted(p_values)
    return [
        _judgement(claim, estimate, 1 - level, p_value, bootstrap)
        for claim, estimate, level, p_value in zip(claims, estimates, levels, adjusted, strict=True)
    ]


def _judgement(
    claim: Claim, estimate: ClusterEstimate, confidence: float, p_value: float, bootstrap: SeedBootstrap
) -> Judgement:
    low, high = estimate.interval(confidence)
    return Judgement(
        claim=claim,
        effect=estimate.value,
        low=low,
        high=high,
        confidence=confidence,
        runs=bootstrap.seeded,
        seeds=bootstrap.seeds,
        p_value=p_value,
        verdict=_verdict(claim, low, high),
    )


def _verdict(claim: Claim, low: float, high: float) -> Verdict:
    """An interval of nan is on neither side."""
    if low > claim.threshold:
        return Verdict.SUPPORTED if claim.above else Verdict.NOT_SUPPORTED
    if high < claim.threshold:
        return Verdict.NOT_SUPPORTED if claim.above else Verdict.SUPPORTED
    return Verdict.INCONCLUSIVE
