"""Statistics along a run, and their mean over runs or median over seeds."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl
from jaxtyping import Float

from isoloss.experiments.statistics.rank_correlation import complete_rows
from isoloss.experiments.statistics.seed_bootstrap import (
    Frames,
    Statistic,
    by_column,
    once_per_frames,
    statistic_of,
)


@dataclass(frozen=True)
class MeanWithinRuns:
    """Mean over runs of the `statistic` of each run alone.

    Hence runs of different sizes, whose traces are over different parameters, are never ranked together. It
    is nan if there are no runs, and if it is undefined for any of them.
    """

    statistic: Statistic

    def __call__(self, runs: Frames) -> float:
        found = [statistic_of(self.statistic, run) for run in runs]
        return float(np.mean(found)) if found else float("nan")


@dataclass(frozen=True)
class GeometricMeanWithinRuns:
    """Geometric mean over runs of the `statistic` of each run alone, which is above 0.

    A run whose statistic is a multiple of the others', such as one that comes loose, moves it little.

    >>> runs = [pl.DataFrame({"kl": [1.0, 3.0]}), pl.DataFrame({"kl": [1.0, 1.5]})]
    >>> round(GeometricMeanWithinRuns(Spread("kl"))(runs), 3)
    0.632
    """

    statistic: Statistic

    def __call__(self, runs: Frames) -> float:
        found = np.array([statistic_of(self.statistic, run) for run in runs])
        return float(np.exp(np.log(found).mean())) if len(found) else float("nan")


@dataclass(frozen=True)
class MeanOverSeeds:
    """Mean over seeds of the `statistic` of each seed's runs, over those for which it is defined.

    It is nan if the statistic is defined for no seed.

    >>> runs = [pl.DataFrame({"seed": [seed], "trace": [4.0 * seed]}) for seed in (1, 2, 3)]
    >>> MeanOverSeeds(lambda runs: runs[0]["trace"][0])(runs)
    8.0
    """

    statistic: Statistic

    def __call__(self, runs: Frames) -> float:
        known = _of_each_seed(self.statistic, runs)
        return float(np.mean(known)) if known else math.nan


@dataclass(frozen=True)
class MedianOverSeeds:
    """Median over seeds of the `statistic` of each seed's runs, over those for which it is defined.

    One run that breaks away, however far, moves it no further than to the next seed's value. It is nan if the
    statistic is defined for no seed.

    >>> runs = [pl.DataFrame({"seed": [seed], "trace": [4.0 * seed**seed]}) for seed in (1, 2, 3)]
    >>> MedianOverSeeds(lambda runs: runs[0]["trace"][0])(runs)
    16.0
    """

    statistic: Statistic

    def __call__(self, runs: Frames) -> float:
        known = _of_each_seed(self.statistic, runs)
        return float(np.median(known)) if known else math.nan


def _of_each_seed(statistic: Statistic, runs: Frames) -> list[float]:
    """The statistic of each seed's runs, where it is defined."""
    found = [statistic_of(statistic, *of_seed) for of_seed in by_column(runs, "seed").values()]
    return [value for value in found if math.isfinite(value)]


@dataclass(frozen=True)
class Scaled:
    """A column on the scale on which its changes are measured: see `in_doublings` and the others."""

    column: str
    scale: Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, " n"]]
    unit: str


def in_doublings(column: str) -> Scaled:
    """Its binary logarithm."""
    return Scaled(column, np.log2, "doublings")


def in_halvings(column: str) -> Scaled:
    """Minus its binary logarithm."""
    return Scaled(column, lambda values: -np.log2(values), "halvings")


def in_points(column: str) -> Scaled:
    """A share in percentage points."""
    return Scaled(column, lambda values: 100 * values, "percentage points")


def theil_sen_slope(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]) -> float:
    """Median of the slopes between all pairs of points with different x (Theil 1950, Sen 1968).

    nan if there is no such pair.

    >>> theil_sen_slope(np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.array([0.0, 1.0, 2.0, 30.0, 4.0]))
    1.0
    """
    slopes = [(y[j] - y[i]) / (x[j] - x[i]) for i, j in combinations(range(len(x)), 2) if x[i] != x[j]]
    return float(np.median(slopes)) if slopes else float("nan")


@dataclass(frozen=True)
class Slope:
    """The Theil-Sen slope of one column over another, such as percentage points per doubling of steps.

    It uses every checkpoint and is robust to an outlier, unlike a comparison of the two ends.
    """

    of: Scaled
    over: Scaled = in_doublings("step")  # noqa: RUF009  (frozen)

    def __call__(self, runs: Frames) -> float:
        """See the class; nan for fewer than two checkpoints."""
        over, of = complete_rows(runs, (self.over.column, self.of.column))
        return theil_sen_slope(self.over.scale(over), self.of.scale(of))


@dataclass(frozen=True)
class Last:
    """A column at the last checkpoint that has it, on its scale; nan without one."""

    of: Scaled

    def __call__(self, runs: Frames) -> float:
        (values,) = complete_rows(runs, (self.of.column,))
        return float(self.of.scale(values)[-1]) if len(values) else float("nan")


@dataclass(frozen=True)
class LastGain:
    """A share less another in percentage points, at the last checkpoint that has both; nan without one."""

    of: str
    over: str

    def __call__(self, runs: Frames) -> float:
        of, over = 100 * complete_rows(runs, (self.of, self.over))
        return float(of[-1] - over[-1]) if len(of) else float("nan")


def mean_gain(of: str, over: str) -> MeanWithinRuns:
    """Mean over runs of `LastGain`."""
    return MeanWithinRuns(LastGain(of, over))


Distance = Callable[[Float[np.ndarray, " n"]], float]
"""From several numbers to how far apart they are; nan for fewer than two."""


def relative_range(values: Float[np.ndarray, " n"]) -> float:
    """Largest minus smallest, over their mean."""
    return float(np.ptp(values) / values.mean()) if len(values) > 1 else math.nan


def range_in_doublings(values: Float[np.ndarray, " n"]) -> float:
    """How often the largest is the smallest doubled.

    >>> range_in_doublings(np.array([0.008, 0.002, 0.004]))
    2.0
    """
    return float(np.log2(values.max() / values.min())) if len(values) > 1 else math.nan


@dataclass(frozen=True)
class Spread:
    """How far apart a column's values are, by default relative to their mean; nan for fewer than two."""

    column: str
    distance: Distance = relative_range

    def __call__(self, runs: Frames) -> float:
        (values,) = complete_rows(runs, (self.column,))
        return self.distance(values)


def divergence_over_entropy(runs: Frames) -> float:
    """KL(distribution || model) at the last checkpoint, as a share of the entropy."""
    loss, kl = complete_rows(runs, ("loss", "kl"))
    return float(kl[-1] / (loss[-1] - kl[-1])) if len(kl) else float("nan")


@dataclass(frozen=True)
class Among:
    """A statistic of only the runs whose `column` is `value`; nan if there are none.

    Some runs may lack the column. Raises KeyError if all do.
    """

    column: str
    value: str
    statistic: Statistic

    def __call__(self, runs: Frames) -> float:
        having = [run for run in runs if self.column in run.columns]
        if runs and not having:
            raise KeyError(self.column)
        chosen = [run for run in having if run[self.column][0] == self.value]
        return self.statistic(chosen) if chosen else float("nan")


@dataclass(frozen=True)
class FromStep:
    """A statistic of the runs' checkpoints from a given step on."""

    step: int
    statistic: Statistic

    def __call__(self, runs: Frames) -> float:
        return self.statistic([_from_step(self.step, run) for run in runs])


@once_per_frames
def _from_step(step: int, run: pl.DataFrame) -> pl.DataFrame:
    return run.filter(pl.col("step") >= step)


@dataclass(frozen=True)
class LastDoubling:
    """How much a column still falls over the last doubling of steps, relative to `beside` at the end.

    Relative to what it was at the start of the doubling for None. There, the column is interpolated linearly
    in the step's logarithm; nan for a run without an earlier checkpoint.
    """

    column: str
    beside: str | None = None

    def __call__(self, runs: Frames) -> float:
        step, values, other = complete_rows(runs, ("step", self.column, self.beside or self.column))
        if len(step) < 2 or step[0] > step[-1] / 2:
            return float("nan")
        before = np.interp(np.log2(step[-1]) - 1, np.log2(step), values)
        return float((before - values[-1]) / (other[-1] if self.beside else before))


FLATTENING = MeanWithinRuns(Slope(in_doublings("trace")))
"""How fast the trace changes, in doublings per doubling of steps."""

IMPROVEMENT = MeanWithinRuns(Slope(in_points("accuracy")))
"""How fast accuracy changes, in percentage points per doubling of steps."""

IMPROVEMENT_BY_FLATTENING = MeanWithinRuns(Slope(in_points("accuracy"), over=in_halvings("trace")))
"""How fast accuracy changes as the trace falls, in percentage points per halving."""

RANGE_OF_LOSS = MeanWithinRuns(Spread("loss"))
"""Within how small a share of itself the loss stays along a run."""

RANGE_OF_KL = MeanWithinRuns(Spread("kl", range_in_doublings))
"""How often KL(distribution || model) halves along a run, which the loss hides: the entropy dwarfs it."""
