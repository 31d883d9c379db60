"""Statistics of models that were polished from common starts: how anything changes with flatness alone."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from isoloss.experiments.statistics.seed_bootstrap import Frames

STAGE, START, BRANCH, POLISHED = "stage", "start", "branch", "polished"
"""The column of a run's stage, and its values; the column `branch` has the ways on from a start."""
FLATTENED, CONTROL, SHARPENED = "flattened", "noise switched off", "sharpened"
"""SGD on words drawn, whose noise flattens; SGD without that noise; descent away from flatness."""


def polished(runs: Frames, *columns: str) -> pl.DataFrame:
    """A row for each polished model that has the columns, with `start`, the number of its start."""
    own = [run for run in runs if {STAGE, *columns} <= {*run.columns} and run[STAGE][0] == POLISHED]
    if not own:
        return pl.DataFrame()
    rows = pl.concat(own, how="diagonal_relaxed").drop_nulls(columns)
    return rows.with_columns(pl.struct("language", "width", "seed").rank("dense").alias("start"))


@dataclass(frozen=True)
class PerDoubling:
    """How a column changes as the trace doubles, among the polished models of one start.

    The least-squares slope over log2 trace with an intercept for every start. `scale` makes of the column
    what is fitted, such as percentage points. nan where no traces differ within a start.
    """

    column: str
    scale: Callable[[pl.Expr], pl.Expr]

    def __call__(self, runs: Frames) -> float:
        """See the class."""
        rows = polished(runs, self.column, "trace")
        if rows.is_empty():
            return math.nan
        apart, changed = (
            rows.select(each - each.mean().over("start")).to_series().to_numpy()
            for each in (pl.col("trace").log(2), self.scale(pl.col(self.column)))
        )
        squares = float(apart @ apart)
        return float(apart @ changed) / squares if squares > 0 else math.nan


def in_points(share: pl.Expr) -> pl.Expr:
    """A share in percentage points."""
    return 100 * share


def in_doublings(value: pl.Expr) -> pl.Expr:
    """Its binary logarithm."""
    return value.log(2)


def doublings_apart(runs: Frames, column: str) -> float:
    """Mean over starts of log2 of the largest over the smallest value among a start's polished models."""
    rows = polished(runs, column)
    if rows.is_empty():
        return math.nan
    spread = pl.col(column).max().log(2) - pl.col(column).min().log(2)
    return float(np.mean(rows.group_by("start").agg(spread.alias("apart"))["apart"].to_numpy()))


def most_divergent(runs: Frames) -> float:
    """Mean over starts of the largest KL among a start's polished models, in 1e-5 nats."""
    rows = polished(runs, "kl")
    if rows.is_empty():
        return math.nan
    return 1e5 * float(np.mean(rows.group_by("start").agg(pl.col("kl").max())["kl"].to_numpy()))


def share_of_fall(runs: Frames) -> float:
    """Fall of log2 trace along SGD on soft labels, over that on words drawn; sums over starts."""
    traces: dict[str, dict[object, float]] = {START: {}, FLATTENED: {}, CONTROL: {}}
    for run in runs:
        if {STAGE, "trace"} <= {*run.columns} and run[STAGE][0] in (START, BRANCH):
            of_branch = traces.get(run["branch"][0], {})
            of_branch[run["language"][0], run["width"][0], run["seed"][0]] = float(np.log2(run["trace"][-1]))
    whole = traces[START].keys() & traces[FLATTENED].keys() & traces[CONTROL].keys()
    fell = {name: sum(traces[START][one] - own[one] for one in whole) for name, own in traces.items()}
    return fell[CONTROL] / fell[FLATTENED] if fell[FLATTENED] else math.nan
