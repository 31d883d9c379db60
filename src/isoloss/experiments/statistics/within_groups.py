"""How models of one group, such as those from one start, differ: slopes within groups, and distances."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float, Shaped

from isoloss.experiments.statistics.along_runs import Scaled
from isoloss.experiments.statistics.seed_bootstrap import Frames

Rows = Callable[..., pl.DataFrame]
"""From the runs' frames and names of columns to a row for each model compared; an empty table without any."""


def about_group_means(
    group: Shaped[np.ndarray, " n"], values: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """The values less the mean of their group's.

    >>> about_group_means(np.array(["a", "b", "a"]), np.array([1.0, 5.0, 3.0])).tolist()
    [-1.0, 0.0, 1.0]
    """
    _, place = np.unique(group, return_inverse=True)
    deviations: Float[np.ndarray, " n"] = values - (np.bincount(place, values) / np.bincount(place))[place]
    return deviations


def slope_within(
    group: Shaped[np.ndarray, " n"], x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]
) -> float:
    """The least-squares slope of y over x, an intercept for every group; nan where no x differ within one.

    >>> seed, x = np.array([1, 1, 2, 2]), np.array([0.0, 1.0, 0.0, 1.0])
    >>> slope_within(seed, x, np.array([5.0, 7.0, 1.0, 3.0]))
    2.0
    """
    apart, outcome = about_group_means(group, x), about_group_means(group, y)
    squares = float(apart @ apart)
    return float(apart @ outcome) / squares if squares > 0 else math.nan


@dataclass(frozen=True)
class PerDoubling:
    """How a column changes as the trace doubles, among the models of one group.

    The least-squares slope over log2 trace with an intercept for every value of `within`, over the `rows`;
    nan where no traces differ within a group.
    """

    of: Scaled
    rows: Rows
    within: str = "seed"

    def __call__(self, runs: Frames) -> float:
        rows = self.rows(runs, self.of.column, "trace")
        if rows.is_empty():
            return math.nan
        trace, outcome = (rows[name].cast(pl.Float64).to_numpy() for name in ("trace", self.of.column))
        return slope_within(rows[self.within].to_numpy(), np.log2(trace), self.of.scale(outcome))


@dataclass(frozen=True)
class DoublingsApart:
    """Mean over groups of log2 of the largest over the smallest value of a column among a group's models.

    Groups of one model are left out; nan if none is left.
    """

    column: str
    rows: Rows
    within: str = "seed"

    def __call__(self, runs: Frames) -> float:
        rows = self.rows(runs, self.column)
        if rows.is_empty():
            return math.nan
        spread = pl.col(self.column).max().log(2) - pl.col(self.column).min().log(2)
        several = rows.group_by(self.within).agg(spread.alias("apart"), pl.len()).filter(pl.col("len") > 1)
        return float(np.mean(several["apart"].to_numpy())) if len(several) else math.nan
