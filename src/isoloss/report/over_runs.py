"""What charts say of several runs at once: the mean with its spread, and the slope within a run or a seed."""

import math
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from markupsafe import Markup

from isoloss.experiments.statistics.across_models import about_group_means
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


def fitted_slope(
    frame: pl.DataFrame, group: str, x: Axis, y: Axis
) -> tuple[Estimate, list[tuple[float, float]]] | None:
    """The slope within the groups, and the ends of a line of that slope through the middle.

    By least squares over all groups, each with its own intercept: per doubling of x where x is logarithmic,
    and in doublings of y where y is. As in claims on such slopes, seeds count by the spread of their x. The
    error is that of a ratio of sums over seeds, linearised; None if there is none.

    >>> rows = [{"seed": s, "x": x, "y": 2 * x - 30 * s} for s in (1, 5) for x in (s, s + 1.0)]
    >>> found, _ = fitted_slope(pl.DataFrame(rows), "seed", Axis("x", "x"), Axis("y", "y"))
    >>> found.value, found.standard_error
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
    u, v = (about_group_means(scaled["group"].to_numpy(), scaled[name].to_numpy()) for name in ("x", "y"))
    _, seed = np.unique(scaled["seed"].to_numpy(), return_inverse=True)
    uv, uu = np.bincount(seed, u * v), np.bincount(seed, u**2)
    uv, uu = uv[uu > 0], uu[uu > 0]
    if len(uu) < LEAST_SEEDS:
        return None
    slope = float(uv.sum() / uu.sum())
    spread = math.sqrt(len(uu) * np.square(uv - slope * uu).sum() / (len(uu) - 1))
    found = Estimate(slope, float(spread / uu.sum()), len(uu))
    low, high = np.quantile(scaled["x"].to_numpy(), MIDDLE)
    middle = float(scaled["x"].to_numpy().mean()), float(scaled["y"].to_numpy().mean())
    ends = [(float(end), middle[1] + found.value * (float(end) - middle[0])) for end in (low, high)]
    return found, [(_shown(place, x), _shown(value, y)) for place, value in ends]


def _shown(value: float, axis: Axis) -> float:
    return float(2.0**value) if axis.logarithmic else value


def fitted_lines(group: str, chart: Dots, frame: pl.DataFrame) -> list[alt.Chart]:
    """Slopes as lines through the middle, with their numbers and errors above the chart's right end.

    Where the chart names the groups and each has one colour, as the models of a start on one of several
    languages have, each colour has its own line, else there is one for all.
    """
    colours = frame["colour"].n_unique() if chart.joined else 1
    apart = colours > 1 and frame.group_by(group).agg(pl.col("colour").n_unique())["colour"].max() == 1
    parts = frame.partition_by("colour", maintain_order=True) if apart else [frame]
    fits = [
        (part["colour"][0], *fit) for part in parts if (fit := fitted_slope(part, group, chart.x, chart.y))
    ]
    if not fits:
        return []
    ends = [{"of": of, "x": x, "y": y} for of, _, line in fits for x, y in line]
    per = "per doubling" if chart.x.logarithmic else "per nat" if "(nats)" in chart.x.title else "per unit"
    unit = " doublings" if chart.y.logarithmic else " points" if "accuracy" in chart.y.title else ""
    factor = 100 if unit == " points" else 1
    lines = [f"slope within a {chart.joined or group}:"]
    for of, slope, _ in fits:
        number = as_text(factor * slope.value, factor * slope.standard_error)
        lines.append(f"{of}: " * apart + f"{number}{unit} {per}")
    style: dict[str, Any] = {"color": marks.INK, "strokeWidth": 2.5, "interpolate": "linear", "clip": True}
    line = alt.Chart(pl.DataFrame(ends)).mark_line(**style).encode(detail=alt.Detail("of:N"))
    # A text of several lines hangs from the first one's base.
    above: dict[str, Any] = {
        "y": -3 - LINE * (len(lines) - 1),
        "baseline": "bottom",
        "lineHeight": LINE,
        "lineBreak": "\n",
    }
    label = alt.Chart(pl.DataFrame({"label": ["\n".join(lines)]})).mark_text(
        align="right", color=marks.INK, fontSize=12, x="width", clip=False, **above
    )
    return [
        line.encode(x=marks.x(chart.x, frame), y=marks.y(chart.y, frame)),
        label.encode(text=alt.Text("label:N")),
    ]


LINE = 15
"""From one line of text to the next, in pixels."""
BAND = (
    "Thick: the mean over seeds; band: one standard deviation over them. Runs with a band have their own "
    "errors on hover, in place of bars."
)
SLOPE = "Straight line: the slope written above it, by least squares, with its standard error over seeds."
POINTS = "Points are percentage points."


def explained(drawing: Drawing) -> list[str]:
    """What a caption has to say of the lines and bands that are not the data's own, in sentences."""
    if isinstance(drawing, Markup):
        return []
    drawn = [layer["mark"] for layer in drawing["layer"]]
    bands = any(mark["type"] == "area" for mark in drawn)
    fitted = any(mark["type"] == "line" and mark.get("color") == marks.INK for mark in drawn)
    written = (str(row.get("label")) for rows in drawing["datasets"].values() for row in rows)
    in_points = fitted and any(" points per " in label for label in written)
    return [BAND] * bands + [SLOPE] * fitted + [POINTS] * in_points
