"""The marks that charts share: dots, bars, their colours and shapes, hovering, and the scaling of axes."""

import math
from typing import Any

import altair as alt
import numpy as np
import polars as pl
from markupsafe import Markup

from isoloss.panels import Axis, Colour
from isoloss.results.record import as_text

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Okabe and Ito's colours for all kinds of colour vision; their yellow, too pale on white, is replaced."""

VIRIDIS = ("#8BD646", "#35B779", "#1F9D8A", "#25848E", "#31688E", "#3F4889", "#472374", "#440154")
"""From light to dark as values rise, without the palest tones, which are invisible on white."""

SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
LEGEND_CHARACTERS = 46
"""About as many fit side by side above a chart."""
MOST_IN_LEGEND = 30
"""More values than these have no legend: it would leave some out, and hovering over a dot shows its value."""


def colour(frame: pl.DataFrame, by: Colour) -> alt.Color:
    """For the column `colour`: a scheme ordered by lightness for `ordered` values, else distinct colours."""
    values = domain(frame, by)
    distinct = [PALETTE[k % len(PALETTE)] for k in range(len(values))]
    scale = alt.Scale(domain=values, range=ordered_colours(len(values)) if by.ordered else distinct)
    return alt.Color("colour:N", sort=None, scale=scale, legend=_legend(values, by))


def shape(frame: pl.DataFrame, by: Colour) -> alt.Shape:
    """A shape for each value of the column `colour`, in one legend with its colour."""
    values = domain(frame, by)
    # Shifted by one in each round of colours, so that no pair of colour and shape repeats.
    shapes = [SHAPES[(k + k // len(PALETTE)) % len(SHAPES)] for k in range(len(values))]
    scale = alt.Scale(domain=values, range=shapes)
    return alt.Shape("colour:N", sort=None, scale=scale, legend=_legend(values, by))


def ordered_colours(number: int) -> list[str]:
    """That many colours from light to dark, as far apart as possible.

    >>> ordered_colours(2)
    ['#8bd646', '#440154']
    """
    stops = [tuple(int(stop[k : k + 2], 16) for k in (1, 3, 5)) for stop in VIRIDIS]
    mixed = []
    for k in range(number):
        place = k * (len(stops) - 1) / max(number - 1, 1)
        before, share = stops[int(place)], place % 1
        after = stops[min(int(place) + 1, len(stops) - 1)]
        mixed.append([round(a + share * (b - a)) for a, b in zip(before, after, strict=True)])
    return ["#" + "".join(f"{part:02x}" for part in parts) for parts in mixed]


def domain(frame: pl.DataFrame, by: Colour) -> list[Any]:
    """The values in order: numerical for numbers, otherwise of first appearance."""
    values = frame["colour"].drop_nulls().unique(maintain_order=True)
    return (values.sort() if by.ordered and values.dtype.is_numeric() else values).to_list()


def _legend(values: list[Any], by: Colour) -> alt.Legend | None:
    if len(values) > MOST_IN_LEGEND:
        return None
    longest = max((len(str(value)) for value in values), default=1)
    columns = max(1, min(len(values), LEGEND_CHARACTERS // (longest + 5)))
    return alt.Legend(title=by.title, orient="top", symbolOpacity=1, columns=columns, labelLimit=300)


PLACE = ("run", "seed", "step")
"""Columns that identify the checkpoint of a row; existing ones are shown on hover."""

CHART_WIDTH, CHART_HEIGHT = 360, 300
STACKED_WIDTH, STACKED_HEIGHT = 560, 170
THEME: dict[str, Any] = {
    "font": "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif",
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal", "gridColor": "#e6e6e6"},
    "axisY": {"minExtent": 44},  # stacked charts start at the same x
    "legend": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
    "view": {"stroke": None},
}
"""The appearance of all charts, on pages and as pictures."""
Drawing = alt.LayerChart | Markup
NOTHING = Markup('<p class="nothing">Nothing has been measured for this chart yet.</p>')
FADED, PLAIN = 0.1, 0.9


def x(axis: Axis, frame: pl.DataFrame, field: str = "x") -> alt.X:
    """The horizontal position, for a frame that is `plotted`."""
    return alt.X(f"{field}:Q", title=axis.title, scale=scale(axis), axis=ticks(axis, frame["x"]))


def y(axis: Axis, frame: pl.DataFrame, field: str = "y") -> alt.Y:
    """The vertical position, for a frame that is `plotted`."""
    return alt.Y(f"{field}:Q", title=axis.title, scale=scale(axis), axis=ticks(axis, frame["y"]))


def scale(axis: Axis) -> alt.Scale:
    """From the smallest to the largest number instead of from zero, since differences are of interest."""
    if axis.logarithmic:
        return alt.Scale(type="log", nice=False, padding=8)
    return alt.Scale(zero=False, nice=True)


NARROW = math.log10(4)
"""The span of a logarithmic axis, in powers of ten, below which labels at powers alone do not suffice."""


def ticks(axis: Axis, numbers: pl.Series) -> alt.Axis:
    """Few enough labels that none overlap."""
    if not axis.logarithmic:
        return alt.Axis(tickCount=6)
    # Vega omits labels as if there were enough powers of ten among them: with few numbers, all are shown.
    low, high = np.log10(np.quantile(numbers.to_numpy(), [0, 1]))
    few = high - low < NARROW or math.ceil(low) > math.floor(high)
    labels = "format(datum.value, ',~g')" if few else alt.Undefined
    return alt.Axis(tickCount=5, labelOverlap="greedy", format=",~g", labelExpr=labels)


def dots(
    base: alt.Chart, frame: pl.DataFrame, by: Colour, hover: alt.Parameter, titles: dict[str, str], size: int
) -> alt.Chart:
    """A mark per row with its numbers on hover; `titles` gives columns and their names there."""
    marked: alt.Chart = base.mark_point(filled=True, size=size).encode(
        color=colour(frame, by),
        shape=shape(frame, by),
        opacity=lit(hover, PLAIN),
        tooltip=tooltip(titles),
    )
    return marked


def tooltip(titles: dict[str, str]) -> list[alt.Tooltip]:
    """The columns shown on hover, with their names there."""
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in titles.items()]


def lit(hover: alt.Parameter, opacity: float) -> Any:
    """That opacity for the rows hovered, and little for the others."""
    return alt.when(hover).then(alt.value(opacity)).otherwise(alt.value(FADED))


def zoom(name: str) -> alt.Parameter:
    """Drag to move, Ctrl and scroll to zoom; scrolling alone moves the page."""
    return alt.selection_interval(name=f"zoom_{name}", bind="scales", zoom="wheel![event.ctrlKey]")


def hovered(name: str, field: str) -> alt.Parameter:
    """The rows with the hovered row's value of `field`; all rows while none is hovered."""
    return alt.selection_point(name=f"hover_{name}", fields=[field], on="pointerover", clear="pointerout")


def of_place(frame: pl.DataFrame) -> dict[str, str]:
    """The existing columns that identify the checkpoint of a row."""
    return {name: name for name in PLACE if name in frame.columns}


def plotted(data: pl.DataFrame, axes: dict[str, Axis], colour: Colour | None, **others: str) -> pl.DataFrame:
    """A column for each of `axes` and `others`, `colour`, and PLACE, whatever their names in `data`.

    An axis `x` adds the ends of its bars, `x_low` and `x_high`, and `x_text`, the number as text. Rows that
    lack a number of an axis, or whose number a logarithmic axis cannot show, are left out; a table that lacks
    a column gives no rows.

    >>> data = pl.DataFrame({"trace": [8.0, None], "trace_error": [0.5, None], "width": [16, 32]})
    >>> plotted(data, {"y": Axis("trace", "trace", "trace_error")}, Colour("width", "width")).to_dicts()
    [{'colour': 16, 'y': 8.0, 'y_low': 7.5, 'y_high': 8.5, 'y_text': '8.00 ± 0.50'}]
    """
    named = {**others, **({"colour": colour.column} if colour else {})}
    if not {axis.column for axis in axes.values()} | set(named.values()) <= set(data.columns):
        return pl.DataFrame()
    columns = {name: pl.col(name) for name in PLACE if name in data.columns}
    columns |= {name: pl.col(column) for name, column in named.items()}
    for name, axis in axes.items():
        columns[name] = pl.col(axis.column).cast(pl.Float64)
        known = axis.error in data.columns
        columns[f"{name}_error"] = pl.col(axis.error).cast(pl.Float64) if known else pl.lit(None, pl.Float64)
    frame = data.select(**columns)
    for name, axis in axes.items():
        above = 0.0 if axis.logarithmic else -math.inf
        frame = frame.filter(pl.col(name).is_finite() & (pl.col(name) > above))
    for name, axis in axes.items():
        frame = _with_bar(frame, name, axis)
    return frame


def _with_bar(frame: pl.DataFrame, name: str, axis: Axis) -> pl.DataFrame:
    half = pl.col(f"{name}_error").fill_null(0.0).fill_nan(0.0)
    low = pl.col(name) - half
    if axis.logarithmic:
        # A bar that reaches zero has no end on a logarithmic axis: it is cut at the smallest number.
        low = pl.when(low > 0).then(low).otherwise(pl.col(name).min())
    pairs = zip(frame[name], frame[f"{name}_error"], strict=True)
    words = pl.Series(f"{name}_text", [as_text(value, error) for value, error in pairs], dtype=pl.String)
    bar = (low.alias(f"{name}_low"), (pl.col(name) + half).alias(f"{name}_high"), words)
    return frame.with_columns(*bar).drop(f"{name}_error")
