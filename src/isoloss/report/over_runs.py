"""What charts say of several runs at once: the mean with its spread, and the slope within a run or a seed."""

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from isoloss.panels import Axis
from isoloss.results.estimate import Estimate

LEAST_SEEDS = 2
"""Seeds from which a spread over them is known at all."""

MIDDLE = (0.05, 0.95)
"""Quantiles of x between which a fitted line is drawn: one far dot does not stretch it."""


def mean_and_band(frame: pl.DataFrame, axis: Axis) -> pl.DataFrame:
    """At each x, the mean of y over the series of one `colour` with the same x, and one deviation off it.

    Columns: `colour`, `x`, `mean`, `low`, `high`, and `runs`, a name for the series of one mean. On a
    logarithmic axis, means and deviations are of the logarithm. Empty if no two series have the same x.

    >>> two = {"colour": ["a"] * 4, "series": [1, 1, 2, 2], "x": [1.0, 2.0] * 2, "y": [1.0, 2.0, 3.0, 4.0]}
    >>> mean_and_band(pl.DataFrame(two), Axis("y", "y"))["mean"].to_list()
    [2.0, 3.0]
    """
    places = frame.group_by("series", maintain_order=True).agg(
        runs=pl.col("x").sort().cast(pl.String).str.join(" "), points=pl.col("x").n_unique()
    )
    scaled = pl.col("y").log() if axis.logarithmic else pl.col("y")
    grouped = (
        frame.join(places.filter(pl.col("points") >= 2), on="series", how="inner")
        .group_by("colour", "runs", "x", maintain_order=True)
        .agg(centre=scaled.mean(), spread=scaled.std(), seeds=pl.col("series").n_unique())
        .filter(pl.col("seeds") >= LEAST_SEEDS)
        .sort("x")
    )
    bounds = {
        "mean": pl.col("centre"),
        "low": pl.col("centre") - pl.col("spread"),
        "high": pl.col("centre") + pl.col("spread"),
    }
    shown = {name: bound.exp() if axis.logarithmic else bound for name, bound in bounds.items()}
    return grouped.select("colour", "runs", "x", **shown)


@dataclass(frozen=True)
class Slope:
    """The mean over seeds of the slope within each `group`, with its error, and the line through the middle.

    A slope is per doubling of x where x is logarithmic, and in doublings of y where y is.
    """

    group: str
    slope: Estimate
    ends: tuple[tuple[float, float], tuple[float, float]]


def slope_within(frame: pl.DataFrame, group: str, x: Axis, y: Axis) -> Slope | None:
    """Least squares within the groups of each seed, each with its own intercept; None if it has no error.

    >>> rows = [{"seed": s, "x": x, "y": 2 * x + s} for s in (1, 5) for x in (1.0, 2.0, 3.0)]
    >>> found = slope_within(pl.DataFrame(rows), "seed", Axis("x", "x"), Axis("y", "y"))
    >>> found.slope.value, found.slope.standard_error
    (2.0, 0.0)
    """
    if "seed" not in frame.columns:
        return None
    scaled = frame.select(
        "seed",
        group=pl.col(group),
        x=pl.col("x").log(2) if x.logarithmic else pl.col("x"),
        y=pl.col("y").log(2) if y.logarithmic else pl.col("y"),
    ).drop_nulls()
    within = scaled.with_columns(
        u=pl.col("x") - pl.col("x").mean().over("group"), v=pl.col("y") - pl.col("y").mean().over("group")
    )
    sums = within.group_by("seed", maintain_order=True).agg(
        uv=(pl.col("u") * pl.col("v")).sum(), uu=(pl.col("u") ** 2).sum()
    )
    slopes = sums.filter(pl.col("uu") > 0).select(slope=pl.col("uv") / pl.col("uu"))["slope"].to_numpy()
    if len(slopes) < LEAST_SEEDS:
        return None
    found = Estimate(float(slopes.mean()), float(slopes.std(ddof=1) / math.sqrt(len(slopes))), len(slopes))
    low, high = np.quantile(scaled["x"].to_numpy(), MIDDLE)
    middle = float(scaled["x"].to_numpy().mean()), float(scaled["y"].to_numpy().mean())
    ends = [(float(end), middle[1] + found.value * (float(end) - middle[0])) for end in (low, high)]
    shown = [(_shown(place, x), _shown(value, y)) for place, value in ends]
    return Slope(group, found, (shown[0], shown[1]))


def _shown(value: float, axis: Axis) -> float:
    return float(2.0**value) if axis.logarithmic else value
