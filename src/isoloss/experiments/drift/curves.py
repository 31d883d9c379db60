"""Runs as curves over the drift's time: how far the trace, or another quantity, has fallen."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import polars as pl
from jaxtyping import Float

from isoloss.experiments.drift.clock import Clock, Pace
from isoloss.experiments.drift.departures import PART, START

MODEL = ("language", "width")
"""The columns that identify curves that can coincide: those from the same starts."""

AnyClock = Callable[[float, int], Clock]
"""From the columns `learning_rate` and `batch_size` to the clock that applies to a table's runs."""


@dataclass(frozen=True)
class Curve:
    """One arm from the models of one width on one language, at its n checkpoints, as the mean over seeds.

    `steps` are the arm's own, from the start on; `fallen` is log2(quantity at the start / quantity), in
    halvings.
    """

    model: tuple[str, int]
    part: str
    pace: Clock
    steps: tuple[int, ...]
    times: Float[np.ndarray, " n"]
    fallen: Float[np.ndarray, " n"]


def with_start(
    runs: Sequence[pl.DataFrame], columns: Sequence[str] = ("trace", "loss", "accuracy")
) -> pl.DataFrame:
    """All checkpoints of runs that continue from a start, with its `columns` as `start_trace` and so on.

    Rows of runs that have no part in the drift are left out, and so are runs whose start is missing.
    """
    own = [run for run in runs if PART in run.columns and run[PART][0] is not None]
    if not own:
        return pl.DataFrame()
    # Frames of the same columns are joined faster; a chunk a run would make all else slow.
    alike = all(run.columns == own[0].columns for run in own)
    table = pl.concat(own, how="vertical_relaxed" if alike else "diagonal_relaxed", rechunk=True)
    starts = table.filter(pl.col(PART) == START).select(
        "seed", *MODEL, *(pl.col(name).alias(f"start_{name}") for name in columns)
    )
    return table.filter(pl.col(PART) != START).join(starts, on=["seed", *MODEL], maintain_order="left")


def curves(
    runs: Sequence[pl.DataFrame], *parts: str, of: str = "trace", clock: AnyClock = Pace
) -> list[Curve]:
    """A curve for each arm of these `parts`, for each model: of the quantity in the column `of`."""
    table = with_start(runs, (of,))
    if table.is_empty():
        return []
    fallen = (pl.col(f"start_{of}") / pl.col(of)).log(2)
    by = [*MODEL, PART, "learning_rate", "batch_size", "pace"]
    means = table.filter(pl.col(PART).is_in(parts)).group_by(*by, "step").agg(fallen.mean().alias("fallen"))
    return [_curve(rows, clock) for rows in means.sort(*by, "step").partition_by(by, maintain_order=True)]


def by_model(found: Sequence[Curve]) -> list[list[Curve]]:
    """The curves of each model, grouped: those that can coincide."""
    ordered = sorted(found, key=lambda curve: curve.model)
    return [list(own) for _, own in groupby(ordered, key=lambda curve: curve.model)]


def largest_distance(own: Sequence[Curve]) -> float:
    """The largest distance of two of the curves at one time, over their mean fall at the last.

    nan if they have not fallen, and for a single curve, which coincides with itself whatever the clock.
    """
    if len(own) < 2:
        return math.nan
    fallen = np.stack([curve.fallen for curve in own])
    fall = fallen[:, -1].mean()
    return float(np.ptp(fallen, axis=0).max() / fall) if fall > 0 else math.nan


def steps_apart(small: Curve, large: Curve) -> list[float]:
    """log2(steps of the large batch / of the small one to the same fall), where both have reached it."""
    # Measured falls increase except for noise; a fall reached at two times counts at the first.
    risen = np.maximum.accumulate(small.fallen)
    inside = (large.fallen >= risen[0]) & (large.fallen <= risen[-1])
    times = np.exp(np.interp(large.fallen[inside], risen, np.log(small.times)))
    paces = large.pace.time_per_step / small.pace.time_per_step
    ratios: list[float] = np.log2(large.times[inside] / times / paces).tolist()
    return ratios


def _curve(rows: pl.DataFrame, clock: AnyClock) -> Curve:
    first = rows.row(0, named=True)
    pace = clock(first["learning_rate"], first["batch_size"])
    steps = tuple(rows["step"].to_list())
    times = np.array([pace.time(step) for step in steps])
    model = (first["language"], first["width"])
    return Curve(model, first[PART], pace, steps, times, rows["fallen"].to_numpy())
