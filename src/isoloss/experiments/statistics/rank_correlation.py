"""How columns of the runs' tables go together: rank correlations, pooled or partial, and slopes at one KL."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float
from scipy import stats

from isoloss.experiments.statistics.seed_bootstrap import Frames, Statistic, by_column, once_per_frames

DIGITS = 12
"""Decimals that coefficients are rounded to, so that rounding alone never makes two of them differ."""

Coefficient = Callable[[np.ndarray, np.ndarray], float]
"""From two columns of numbers to a coefficient of rank correlation, nan where it is undefined."""


def rank_correlation(first: Float[np.ndarray, " n"], second: Float[np.ndarray, " n"]) -> float:
    """Spearman's rank correlation, with mean ranks for ties; nan if either variable is constant.

    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 15.0]))
    0.5
    """
    if _is_constant(first) or _is_constant(second):
        return float("nan")
    return _correlation(_ranks(first), _ranks(second))


def kendall_tau(first: Float[np.ndarray, " n"], second: Float[np.ndarray, " n"]) -> float:
    """Kendall's tau-b, which accounts for ties; nan if either variable is constant.

    >>> round(kendall_tau(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 15.0])), 3)
    0.333
    """
    if _is_constant(first) or _is_constant(second):
        return float("nan")
    return round(float(stats.kendalltau(first, second).statistic), DIGITS)


def partial_rank_correlation(
    first: Float[np.ndarray, " n"], second: Float[np.ndarray, " n"], given: Float[np.ndarray, "k n"]
) -> float:
    """Partial Spearman correlation: that of the residuals of ranks after regression on the ranks of `given`.

    A constant row of `given`, or one with the same ranks as another, changes nothing. It is nan if the
    residuals of either variable vanish, or if there are fewer than three rows more than `given` has, for
    which the result would be 1 or -1 whatever the numbers.

    >>> size = np.array([1.0, 1.0, 2.0, 2.0, 3.0])
    >>> trace, accuracy = np.array([5.0, 4.0, 3.0, 2.0, 1.0]), np.array([1.0, 2.0, 4.0, 3.0, 5.0])
    >>> rank_correlation(-trace, accuracy), partial_rank_correlation(-trace, accuracy, size[None])
    (0.9, 0.0)
    """
    n = len(first)
    if n < 3 + len(given):
        return float("nan")
    ranks = np.stack([_ranks(values) for values in (first, second)], axis=1)
    others = np.stack([np.ones(n), *(_ranks(values) for values in given)], axis=1)
    left = ranks - others @ np.linalg.lstsq(others, ranks, rcond=None)[0]
    # Ranks are integers or half-integers: a residual that is not rounding is of the order of 1.
    if np.linalg.norm(left, axis=0).min() < 1e-6:
        return float("nan")
    return _correlation(left[:, 0], left[:, 1])


@dataclass(frozen=True)
class Ranking:
    """A claim's statistic: how strongly smaller `measure` goes with larger `outcome` over all checkpoints.

    It is the `coefficient` of minus the measure with the outcome, since models that are flatter, or have a
    lower loss, should do better: 1 if smaller is always better. Rows that lack either value are left out.
    """

    measure: str
    outcome: str = "accuracy"
    coefficient: Coefficient = rank_correlation

    def __call__(self, runs: Frames) -> float:
        measure, outcome = complete_rows(runs, (self.measure, self.outcome))
        return self.coefficient(-measure, outcome)


@dataclass(frozen=True)
class PartialRanking:
    """The same with accuracy, controlling for `given`, by `partial_rank_correlation`."""

    measure: str
    given: tuple[str, ...]

    def __call__(self, runs: Frames) -> float:
        measure, outcome, *given = complete_rows(runs, (self.measure, "accuracy", *self.given))
        return partial_rank_correlation(-measure, outcome, np.array(given).reshape(len(given), len(measure)))


@dataclass(frozen=True)
class Advantage:
    """How much the statistic `first` exceeds `second` on the same runs: a paired difference."""

    first: Statistic
    second: Statistic

    def __call__(self, runs: Frames) -> float:
        return self.first(runs) - self.second(runs)


def complete_rows(runs: Frames, columns: Sequence[str]) -> Float[np.ndarray, "k n"]:
    """The `columns` of all runs' rows with a finite number in each of them."""
    have_all = [run for run in runs if set(columns) <= set(run.columns)]
    # Column by column: resampling does this thousands of times, and a table query costs far more.
    values = [[run[name].to_numpy() for run in have_all] for name in columns]
    rows = np.array([np.concatenate([[], *of_column]) for of_column in values], dtype=np.float64)
    return rows[:, np.isfinite(rows).all(axis=0)]


def _is_constant(values: Float[np.ndarray, " n"]) -> bool:
    return len(values) < 2 or bool(np.ptp(values) == 0)


def _ranks(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """From 1, equal values sharing the mean of theirs.

    As scipy's `rankdata`, which takes twenty times as long for a few numbers, and resampling ranks thousands.
    """
    ordered = np.sort(values)
    ranks: Float[np.ndarray, " n"] = (
        np.searchsorted(ordered, values) + np.searchsorted(ordered, values, side="right") + 1
    ) / 2
    return ranks


def _correlation(first: Float[np.ndarray, " n"], second: Float[np.ndarray, " n"]) -> float:
    left, right = first - first.mean(), second - second.mean()
    product = float(left @ right) / float(np.linalg.norm(left) * np.linalg.norm(right))
    return round(min(1.0, max(-1.0, product)), DIGITS)


@dataclass(frozen=True)
class PartialSlope:
    """Percentage points of accuracy for a doubling of `of`, by default the trace, at one KL.

    Accuracy is regressed by least squares on the binary logarithms of it and of KL(distribution || model),
    with an intercept for each value of `within`: for each seed ("seed"), whose runs are thus compared with
    one another, or for each run ("run"), whose checkpoints are compared only with one another, since traces
    over different parameters have no common zero. Of each of these, only checkpoints whose loss is within
    `window` of their lowest count, all for None. It is nan if `of` does not vary apart from KL.

    An error in KL makes it look as if the rest were explained by the trace: both are measured to 2 %.
    """

    within: str = "run"
    of: str = "trace"
    outcome: str = "accuracy"
    window: float | None = None

    def __call__(self, runs: Frames) -> float:
        products = np.zeros((3, 3))
        for group in by_column(runs, self.within).values():
            products += self._products(*group)
        given, outcome = products[:2, :2], products[:2, 2]
        # Where one is a line over the other in each group, only rounding tells the two apart.
        if not np.linalg.det(given) > 1e-9 * given[0, 0] * given[1, 1]:
            return float("nan")
        return float(np.linalg.solve(given, outcome)[0])

    @once_per_frames
    def _products(self, *runs: pl.DataFrame) -> Float[np.ndarray, "3 3"]:
        """Sums of squares and products of log2(of), log2(KL) and accuracy about their means in the group."""
        of, kl, outcome, loss = complete_rows(runs, (self.of, "kl", self.outcome, "loss"))
        if self.window is not None and len(loss):
            near = loss <= (1 + self.window) * loss.min()
            of, kl, outcome = of[near], kl[near], outcome[near]
        if not len(kl):
            return np.zeros((3, 3))
        rows = np.stack([np.log2(of), np.log2(kl), 100 * outcome])
        rows -= rows.mean(axis=1, keepdims=True)
        products: Float[np.ndarray, "3 3"] = rows @ rows.T
        return products


FEWEST = 4
"""Checkpoints of a seed below which nothing is said of it."""


@dataclass(frozen=True)
class PooledInWindow:
    """A statistic of one seed's checkpoints within `window` of its lowest loss; nan for fewer than `FEWEST`.

    Those of all its runs together, whatever their sizes.
    """

    statistic: Statistic
    window: float

    def __call__(self, runs: Frames) -> float:
        known = [run.filter(pl.col("loss").cast(pl.Float64).is_finite()) for run in runs]
        lowest = min((float(run["loss"].to_numpy().min()) for run in known if len(run)), default=float("nan"))
        near = [run.filter(pl.col("loss") <= (1 + self.window) * lowest) for run in known]
        return self.statistic(near) if sum(map(len, near)) >= FEWEST else float("nan")
