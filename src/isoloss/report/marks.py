"""The marks that charts share: dots, bars, their colours and shapes, hovering, and the scaling of axes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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

RAMP = 24
"""Steps of an ordered scheme from end to end: each of its colours has one in its place on dark ground."""

INK, SOFT_INK, GRID, DOMAIN, PAPER = "#000000", "#555555", "#e6e6e6", "#888888", "#ffffff"
"""Text, lines that are no data, and the ground, on white."""

ON_DARK = (
    *zip(
        PALETTE,
        ("#4DB2F0", "#FF8A4C", "#3FD0A2", "#F0A6CF", "#FFC247", "#9AD8FA", "#ECECEA", "#C9A66B"),
        strict=True,
    ),
    *((INK, "#ececea"), (SOFT_INK, "#b4b4b2"), (GRID, "#333338"), (DOMAIN, "#77777c"), (PAPER, "#17171a")),
)
"""Each colour on white, and the one in its place on dark ground."""

DARK_RAMP = ("#4A6BD8", "#3E93D6", "#35B3C0", "#4CCB9A", "#8BDB6A", "#C8E55A", "#F3EC8A", "#FFF8D0")
"""In place of VIRIDIS on dark ground: the more, the lighter, since what is dark there is not seen."""


def on_dark_ground() -> str:
    """CSS rules that put each colour of a drawn chart into its place on dark ground."""
    ramp = zip(ordered_colours(RAMP + 1), ordered_colours(RAMP + 1, DARK_RAMP), strict=True)
    return "".join(
        f'svg [{part}="{light}" i]{{{part}:{dark}}}'
        for light, dark in (*ON_DARK, *ramp)
        for part in ("fill", "stroke")
    )


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
LETTER = 7.8
"""A letter of a legend, in pixels, at most."""
MOST_LETTERS = 36
CUT_IN_THE_MIDDLE = (
    f"length(datum.label) > {MOST_LETTERS} "
    "? slice(datum.label, 0, 12) + '…' + slice(datum.label, -23) : datum.label"
)
"""Vega's expression of a label: long names, as of runs and of tensors, differ at their ends."""
MOST_IN_LEGEND = 30
"""More values than these have no legend: it would leave some out, and hovering over a dot shows its value."""


@dataclass(frozen=True)
class Key:
    """A panel's colours: the column they show, and its values in order, the same in all its charts.

    The legend does not list the value `dashed`, which is drawn as the line that the legend of dashes names.
    """

    by: Colour
    values: tuple[Any, ...]
    dashed: str | None = None

    @property
    def colours(self) -> list[str]:
        """A scheme ordered by lightness for `ordered` values, else distinct colours."""
        number = len(self.values)
        return (
            ordered_colours(number) if self.by.ordered else [PALETTE[k % len(PALETTE)] for k in range(number)]
        )

    @property
    def shapes(self) -> list[str]:
        """Shifted by one in each round of colours, so that no pair of colour and shape repeats."""
        return [SHAPES[(k + k // len(PALETTE)) % len(SHAPES)] for k in range(len(self.values))]


def key_of(data: pl.DataFrame, by: Colour) -> Key:
    """The values of the column in `data`: in order for `ordered` numbers, otherwise of first appearance."""
    if by.column not in data.columns:
        return Key(by, ())
    values = data[by.column].drop_nulls().unique(maintain_order=True)
    return Key(by, tuple((values.sort() if by.ordered and values.dtype.is_numeric() else values).to_list()))


def colour(key: Key) -> alt.Color:
    """For the column `colour`."""
    scale = alt.Scale(domain=list(key.values), range=key.colours)
    return alt.Color("colour:N", sort=None, scale=scale, legend=_legend(key))


def shape(key: Key) -> alt.Shape:
    """A shape for each value of the column `colour`, in one legend with its colour."""
    scale = alt.Scale(domain=list(key.values), range=key.shapes)
    return alt.Shape("colour:N", sort=None, scale=scale, legend=_legend(key))


def ordered_colours(number: int, stops: Sequence[str] = VIRIDIS) -> list[str]:
    """That many colours along the stops, as far apart as possible, out of at most RAMP + 1.

    >>> ordered_colours(2)
    ['#8bd646', '#440154']
    """
    last = len(stops) - 1
    parts = [tuple(int(stop[k : k + 2], 16) for k in (1, 3, 5)) for stop in stops]
    mixed = []
    for k in range(number):
        place = round(k * RAMP / max(number - 1, 1)) * last / RAMP
        before, share = parts[int(place)], place % 1
        after = parts[min(int(place) + 1, last)]
        mixed.append([round(a + share * (b - a)) for a, b in zip(before, after, strict=True)])
    return ["#" + "".join(f"{part:02x}" for part in each) for each in mixed]


def _legend(key: Key) -> alt.Legend | None:
    if len(key.values) > MOST_IN_LEGEND:
        return None
    listed = [value for value in key.values if value != key.dashed]
    if not listed:
        return None
    columns = legend_columns(replace(key, values=tuple(listed)), CHART_WIDTH)
    wide: dict[str, Any] = {"labelLimit": 300, "labelExpr": CUT_IN_THE_MIDDLE, "titleLimit": CHART_WIDTH}
    if key.dashed in key.values:
        wide["values"] = listed
    return alt.Legend(title=key.by.title, orient="top", symbolOpacity=1, columns=columns, **wide)


def legend_columns(key: Key, width: int) -> int:
    """As many of a legend's values as fit beside each other, in a chart of that width."""
    longest = max((min(len(str(value)), MOST_LETTERS) for value in key.values), default=1)
    return max(1, min(len(key.values), int(width / LETTER) // (longest + 5)))


PLACE = ("run", "seed", "step")
"""Columns that identify the checkpoint of a row; existing ones are shown on hover."""

CHART_WIDTH, CHART_HEIGHT = 360, 300
STACKED_WIDTH, STACKED_HEIGHT = 560, 200
AXIS_HEIGHT = 20
"""At least so much is below a chart's own height, for the axis."""
THEME: dict[str, Any] = {
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "gridColor": GRID,
        "domainColor": DOMAIN,
        "tickColor": DOMAIN,
        "labelColor": INK,
        "titleColor": INK,
    },
    "axisY": {"minExtent": 48},  # stacked charts start at the same x
    "font": "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif",
    "legend": {
        "labelFontSize": 13,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "labelColor": INK,
        "titleColor": INK,
    },
    "title": {"color": INK, "subtitleColor": SOFT_INK},
    "view": {"stroke": None},
}
"""The appearance of all charts, on pages and as pictures."""
Drawing = dict[str, Any] | Markup
"""A chart as a Vega-Lite specification, or ready HTML."""
NOTHING = Markup('<p class="nothing">Nothing has been measured for this chart yet.</p>')
FADED, PLAIN, FAINT = 0.1, 0.9, 0.3


def specification(chart: alt.LayerChart) -> dict[str, Any]:
    """As a Vega-Lite specification, in the common style of all charts."""
    # Altair refuses more than 5,000 rows by default; a landscape has more cells.
    with alt.data_transformers.enable("default", max_rows=None):
        found: dict[str, Any] = chart.to_dict(validate=False)
    # As `configure` does, which would copy the whole chart.
    plain = found["config"]
    return found | {"config": plain | THEME | {"view": plain["view"] | THEME["view"]}}


def x(axis: Axis, frame: pl.DataFrame, field: str = "x") -> alt.X:
    """The horizontal position, for a frame that is `plotted`; a few sizes have a tick each."""
    numbers = frame["x"]
    sizes = axis.logarithmic and numbers.n_unique() <= FEW and (numbers == numbers.round()).all()
    at = alt.Axis(values=numbers.unique().to_list(), format=",~g") if sizes else ticks(axis, numbers)
    return alt.X(f"{field}:Q", title=axis.title, scale=scale(axis), axis=at)


FEW = 4
"""How many sizes, such as widths, have a tick each."""


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
    return alt.Axis(tickCount=5, labelOverlap="greedy", labelSeparation=4, format=",~g", labelExpr=labels)


def dots(
    base: alt.Chart, key: Key, hover: alt.Parameter, titles: dict[str, str], size: int, opacity: float = 0.9
) -> alt.Chart:
    """A mark per row with its numbers on hover; `titles` gives columns and their names there."""
    marked: alt.Chart = base.mark_point(filled=True, size=size).encode(
        color=colour(key), shape=shape(key), opacity=lit(hover, opacity), tooltip=tooltip(titles)
    )
    return marked


def tooltip(titles: dict[str, str]) -> list[alt.Tooltip]:
    """The columns shown on hover, with their names there."""
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in titles.items()]


def lit(hover: alt.Parameter, opacity: float) -> alt.OpacityValue:
    """That opacity for the rows hovered, and little for the others."""
    return alt.OpacityValue(FADED, condition={"param": hover.name, "value": opacity})


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
