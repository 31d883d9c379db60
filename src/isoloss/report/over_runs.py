"""What charts say of several runs at once: the mean with its spread, and the slope within a run or a seed."""

import math
from dataclasses import dataclass

import altair as alt
import numpy as np
import polars as pl
from markupsafe import Markup

from isoloss.panels import Axis, Dots, Lines
from isoloss.report import marks
from isoloss.report.marks import Drawing, Key, colour
from isoloss.results.estimate import Estimate
from isoloss.results.record import as_text

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


def mean_over_band(
    means: pl.DataFrame, chart: Lines, frame: pl.DataFrame, key: Key, runs: list[alt.Chart]
) -> list[alt.Chart]:
    """`mean_and_band` drawn, with what is drawn of the `runs` themselves between the band and the mean."""
    base = alt.Chart(means).encode(x=marks.x(chart.x, frame), color=colour(key), detail=alt.Detail("runs:N"))
    ends = {"y": marks.y(chart.y, frame, "low"), "y2": alt.Y2("high")}
    band = base.mark_area(opacity=0.18, clip=True).encode(**ends, fill=colour(key))
    mean = base.mark_line(strokeWidth=2.8).encode(y=marks.y(chart.y, frame, "mean"))
    return [band.encode(color=alt.ColorValue("transparent")), *runs, mean]


@dataclass(frozen=True)
class Slope:
    """The slope within the groups, with its error over seeds, and the line through the middle.

    A slope is per doubling of x where x is logarithmic, and in doublings of y where y is.
    """

    group: str
    slope: Estimate
    ends: tuple[tuple[float, float], tuple[float, float]]


def slope_within(frame: pl.DataFrame, group: str, x: Axis, y: Axis) -> Slope | None:
    """Least squares over all groups, each with its own intercept; None if it has no error.

    As in claims on such slopes, seeds count by the spread of their x. The error is that of a ratio of sums
    over seeds, linearised.

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
    uv, uu = (sums.filter(pl.col("uu") > 0)[name].to_numpy() for name in ("uv", "uu"))
    if len(uu) < LEAST_SEEDS:
        return None
    slope = float(uv.sum() / uu.sum())
    spread = math.sqrt(len(uu) * np.square(uv - slope * uu).sum() / (len(uu) - 1))
    found = Estimate(slope, float(spread / uu.sum()), len(uu))
    low, high = np.quantile(scaled["x"].to_numpy(), MIDDLE)
    middle = float(scaled["x"].to_numpy().mean()), float(scaled["y"].to_numpy().mean())
    ends = [(float(end), middle[1] + found.value * (float(end) - middle[0])) for end in (low, high)]
    shown = [(_shown(place, x), _shown(value, y)) for place, value in ends]
    return Slope(group, found, (shown[0], shown[1]))


def _shown(value: float, axis: Axis) -> float:
    return float(2.0**value) if axis.logarithmic else value


def fitted_line(fitted: Slope, chart: Dots, frame: pl.DataFrame) -> list[alt.Chart]:
    """The slope as a line through the middle, with its number and error above the chart's right end."""
    ends = pl.DataFrame(fitted.ends, schema=["x", "y"], orient="row")
    line = alt.Chart(ends).mark_line(color=marks.INK, strokeWidth=2.5, interpolate="linear", clip=True)
    per = "per doubling" if chart.x.logarithmic else "per nat" if "(nats)" in chart.x.title else "per unit"
    unit = " doublings" if chart.y.logarithmic else " points" if "accuracy" in chart.y.title else ""
    factor = 100 if unit == " points" else 1
    number = as_text(factor * fitted.slope.value, factor * fitted.slope.standard_error)
    slope = f"slope within a {chart.joined or fitted.group}: {number}{unit} {per}"
    label = alt.Chart(pl.DataFrame({"label": [slope]})).mark_text(
        align="right", baseline="bottom", color=marks.INK, fontSize=12, x="width", y=-3, clip=False
    )
    return [
        line.encode(x=marks.x(chart.x, frame), y=marks.y(chart.y, frame)),
        label.encode(text=alt.Text("label:N")),
    ]


BAND = "Thick: the mean over seeds; band: one standard deviation over them. "
SLOPE = (
    "Straight line: the slope written above it, by least squares, with its standard error over seeds; points "
    "are percentage points. "
)


def explained(drawing: Drawing) -> str:
    """What a caption has to say of the lines and bands that are not the data's own."""
    drawn = [] if isinstance(drawing, Markup) else [layer["mark"] for layer in drawing["layer"]]
    bands = any(mark["type"] == "area" for mark in drawn)
    fitted = any(mark["type"] == "line" and mark.get("color") == marks.INK for mark in drawn)
    return BAND * bands + SLOPE * fitted
