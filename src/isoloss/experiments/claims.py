"""Claims about a set of runs: each a statistic, a threshold fixed beforehand, and a computed verdict."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import stats

from isoloss.verdict import Verdict

CONFIDENCE = 0.95
"""Joint confidence of all the intervals of one figure; each is widened so that all hold together."""

RESAMPLES = 2000

Statistic = Callable[[Sequence[pl.DataFrame]], float]
"""From the runs' tables of checkpoints, one frame a run, to the claim's number."""


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
    """A claim with its effect, its interval over runs, and the verdict that follows from them."""

    claim: Claim
    effect: float
    low: float
    high: float
    confidence: float
    runs: int
    verdict: Verdict


def judge(claims: Sequence[Claim], runs: Sequence[pl.DataFrame], seed: int = 0) -> list[Judgement]:
    """Judge all `claims` on `runs` with basic bootstrap intervals from resampling whole runs.

    A run's checkpoints depend on one another, so the run is what is resampled. With k claims each
    interval has confidence 1 - (1 - CONFIDENCE)/k (Bonferroni), so that all k hold together.

    >>> low = pl.DataFrame({"step": [1, 2], "trace": [9.0, 5.0]})
    >>> claim = Claim("falls", "It falls.", "", "mean change", "", 0.0, False,
    ...               lambda runs: float(np.mean([r["trace"][-1] - r["trace"][0] for r in runs])))
    >>> str(judge([claim], [low, low, low])[0].verdict)
    'supported'
    """
    confidence = 1 - (1 - CONFIDENCE) / max(len(claims), 1)
    return [_judge_one(claim, runs, confidence, seed) for claim in claims]


def _judge_one(claim: Claim, runs: Sequence[pl.DataFrame], confidence: float, seed: int) -> Judgement:
    if not runs:
        return Judgement(claim, np.nan, np.nan, np.nan, confidence, 0, Verdict.INCONCLUSIVE)
    effect = claim.statistic(runs)
    generator = np.random.default_rng(seed)
    draws = np.array(
        [
            claim.statistic([runs[row] for row in generator.integers(0, len(runs), len(runs))])
            for _ in range(RESAMPLES)
        ]
    )
    tail = (1 - confidence) / 2
    # A resample in which a statistic is undefined (all ranks tied, say) tells nothing of its spread.
    below, above = np.nanquantile(draws, [tail, 1 - tail]) if np.isfinite(draws).any() else (np.nan, np.nan)
    # Mirrored at the effect: a resample's spread of losses, for one, can only fall short of the sample's.
    low, high = 2 * effect - float(above), 2 * effect - float(below)
    return Judgement(claim, effect, low, high, confidence, len(runs), _verdict(claim, low, high, len(runs)))


def _verdict(claim: Claim, low: float, high: float, runs: int) -> Verdict:
    if runs < 2 or not np.isfinite([low, high]).all():
        return Verdict.INCONCLUSIVE
    if low > claim.threshold:
        return Verdict.SUPPORTED if claim.above else Verdict.NOT_SUPPORTED
    if high < claim.threshold:
        return Verdict.NOT_SUPPORTED if claim.above else Verdict.SUPPORTED
    return Verdict.INCONCLUSIVE


def rank_correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Spearman's rank correlation; nan where one of the two is constant.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 15.0]))
    0.5
    """
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(stats.spearmanr(first, second).statistic)
