"""Drawing every kind of chart that a panel can have."""

from dataclasses import replace
from typing import Any, assert_never

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode
from markupsafe import Markup

from isoloss.panels import Bars, Categories, Chart, Dots, Landscape, Lines, Table, Tree
from isoloss.report import marks
from isoloss.report.marks import (
    CHART_HEIGHT,
    NOTHING,
    Drawing,
    Key,
    colour,
    key_of,
    lit,
    plotted,
    specification,
)
from isoloss.report.over_runs import fitted_lines, mean_and_band, mean_over_band
from isoloss.report.table import draw_table, tree_picture

MEASURED = "measured"
ROW_HEIGHT = 26
LABELS: dict[str, Any] = {"labelLimit": 240, "labelExpr": marks.CUT_IN_THE_MIDDLE}
SIDE = 420
"""Width and height of a landscape in pixels: one unit of x is as long as one of y."""


def draw(chart: Chart, data: pl.DataFrame, name: str) -> Drawing:
    """The chart's specification for Vega-Lite, or ready HTML; `name`, an identifier, is unique on its page.

    >>> from isoloss.panels import Axis, Colour
    >>> data = pl.DataFrame({"loss": [1.5, 1.4], "trace": [9.0, 8.0], "width": [16, 32]})
    >>> chart = Dots(Axis("loss", "loss"), Axis("trace", "trace"), Colour("width", "width", ordered=True))
    >>> [layer["mark"]["type"] for layer in draw(chart, data, "a")["layer"]]
    ['point']
    """
    with debug_mode(False):  # without checking each part's schema, which takes longer than the drawing
        drawn = _drawn(chart, data, name)
    return drawn if isinstance(drawn, Markup) else specification(drawn)


def _drawn(chart: Chart, data: pl.DataFrame, name: str) -> alt.LayerChart | Markup:
    match chart:
        case Table():
            return draw_table(chart, data)
        case Tree():
            return tree_picture(chart.root)
        case Landscape():
            return _landscape(chart, data, name)
        case Dots():
            others = {"joined": chart.joined} if chart.joined else {}
            frame = plotted(data, {"x": chart.x, "y": chart.y}, chart.colour, **others)
            return NOTHING if frame.is_empty() else _dots(chart, frame, key_of(data, chart.colour), name)
        case Lines():
            others = {"series": chart.series} | ({"predicted": chart.predicted} if chart.predicted else {})
            frame = plotted(data, {"x": chart.x, "y": chart.y}, chart.colour, **others)
            key = replace(key_of(data, chart.colour), dashed=chart.dashed if chart.predicted else None)
            return NOTHING if frame.is_empty() else _lines(chart, frame, key, name)
        case Categories():
            frame = plotted(data, {"x": chart.y}, chart.colour, category=chart.category)
            key = key_of(data, chart.colour)
            return NOTHING if frame.is_empty() else _categories(chart, frame, key, name)
        case Bars():
            frame = plotted(data, {"x": chart.y}, chart.colour, category=chart.category)
            return NOTHING if frame.is_empty() else _bars(chart, frame, key_of(data, chart.colour), name)
        case _:
            assert_never(chart)


def _categories(chart: Categories, frame: pl.DataFrame, key: Key, name: str) -> alt.LayerChart:
    """With values on the x axis, so that categories are readable."""
    hover = marks.hovered(name, "colour")
    row = alt.Y("category:N", title=None, sort=None, axis=alt.Axis(grid=True, **LABELS))
    base = alt.Chart(frame).encode(y=row)
    colours = frame.group_by("category").agg(pl.col("colour").n_unique())["colour"].max()
    if colours != 1:
        base = base.encode(yOffset=alt.YOffset("colour:N", sort=None, scale=alt.Scale(paddingOuter=0.25)))
    titles = {
        **marks.of_place(frame),
        "category": chart.category,
        "colour": chart.colour.title,
        "x_text": chart.y.title,
    }
    placed = base.encode(x=marks.x(chart.y, frame))
    points = marks.dots(placed, key, hover, titles, size=70).add_params(hover)
    bars = base.mark_rule().encode(
        x=marks.x(chart.y, frame, "x_low"), x2=alt.X2("x_high"), color=colour(key), opacity=lit(hover, 0.5)
    )
    categories = frame["category"].n_unique()
    rows = categories * max(1, len(key.values) // 2)
    return alt.LayerChart(
        layer=[bars, points] if chart.y.error else [points],
        height=max(CHART_HEIGHT, ROW_HEIGHT * rows),
        description=f"{chart.y.title} of {categories} categories.",
    )


def _bars(chart: Bars, frame: pl.DataFrame, key: Key, name: str) -> alt.LayerChart:
    """As categories, from zero, since lengths are compared."""
    hover = marks.hovered(name, "colour")
    base = alt.Chart(frame).encode(
        y=alt.Y("category:N", title=None, sort=None, axis=alt.Axis(**LABELS)),
        yOffset=alt.YOffset("colour:N", sort=None, scale=alt.Scale(paddingOuter=0.15)),
    )
    titles = {"category": chart.category, "colour": chart.colour.title, "x_text": chart.y.title}
    scale, axis = alt.Scale(zero=True, nice=True), marks.ticks(chart.y, frame["x"])
    bars = base.mark_bar().encode(
        x=alt.X("x:Q", title=chart.y.title, scale=scale, axis=axis),
        color=colour(key),
        opacity=lit(hover, marks.PLAIN),
        tooltip=marks.tooltip(titles),
    )
    errors = base.mark_rule(color=marks.SOFT_INK).encode(x=alt.X("x_low:Q"), x2=alt.X2("x_high"))
    categories = frame["category"].n_unique()
    return alt.LayerChart(
        layer=[bars.add_params(hover), errors],
        height=ROW_HEIGHT * categories * max(1.0, len(key.values) / 2),
        description=f"{chart.y.title} of {categories} categories, as bars.",
    )


def _dots(chart: Dots, frame: pl.DataFrame, key: Key, name: str) -> alt.LayerChart:
    """Joined along each run, or among a seed's models, with the mean slope there."""
    base = alt.Chart(frame).encode(color=colour(key))
    hover = marks.hovered(name, "run" if "run" in frame.columns else "colour")
    joined = "joined" if chart.joined else _joined(frame)
    layers: list[alt.Chart | alt.LayerChart] = []
    if joined is not None:
        path = alt.Chart(frame).mark_line(strokeWidth=1, interpolate="linear")
        order = "step:Q" if joined == "run" else "x:Q"
        faint = lit(hover, marks.FAINT)
        path = path.encode(
            x=alt.X("x:Q"),
            y=alt.Y("y:Q"),
            order=alt.Order(order),
            detail=alt.Detail(f"{joined}:N"),
            opacity=faint,
        )
        layers.append(path.encode(color=colour(key) if joined == "run" else alt.ColorValue(marks.SOFT_INK)))
    bar = base.mark_rule().encode(opacity=lit(hover, 0.35))
    if chart.x.error:
        layers.append(bar.encode(x=marks.x(chart.x, frame, "x_low"), x2=alt.X2("x_high"), y=alt.Y("y:Q")))
    if chart.y.error:
        layers.append(bar.encode(x=alt.X("x:Q"), y=marks.y(chart.y, frame, "y_low"), y2=alt.Y2("y_high")))
    if joined is not None:
        layers += fitted_lines(joined, chart, frame)
    titles = marks.of_place(frame) | _titles(chart)
    placed = base.encode(x=marks.x(chart.x, frame), y=marks.y(chart.y, frame))
    points = marks.dots(placed, key, hover, titles, size=70)
    return alt.LayerChart(
        layer=[*layers, points.add_params(hover, marks.zoom(name))],
        height=CHART_HEIGHT,
        description=f"{chart.y.title} against {chart.x.title}: {len(frame)} dots.",
    )


def _joined(frame: pl.DataFrame) -> str | None:
    """Whose dots belong together: a run's, if runs have several, else a seed's; None if neither is known."""
    for group, others in (("run", "step"), ("seed", "run")):
        if {group, others} <= set(frame.columns) and frame[group].n_unique() < len(frame):
            return group
    return None


def _titles(chart: Dots | Lines) -> dict[str, str]:
    """What a dot says on hover besides its place."""
    return {"colour": chart.colour.title, "x_text": chart.x.title, "y_text": chart.y.title}


def _lines(chart: Lines, frame: pl.DataFrame, key: Key, name: str) -> alt.LayerChart:
    """Through measured rows' dots; of several runs of a colour, faint ones behind their mean and its band.

    If all rows are predicted, invisible dots still show their numbers.
    """
    predicted = pl.col("predicted").fill_null(value=False) if chart.predicted else pl.lit(value=False)
    frame = frame.with_columns(kind=pl.when(predicted).then(pl.lit(chart.dashed)).otherwise(pl.lit(MEASURED)))
    means = pl.DataFrame() if chart.predicted else mean_and_band(frame, chart.y)
    alone = means.is_empty()
    hover = marks.hovered(name, "series")
    base = alt.Chart(frame).encode(x=marks.x(chart.x, frame), color=colour(key))
    placed = base.encode(y=marks.y(chart.y, frame))
    line = placed.mark_line(strokeWidth=2 if alone else 1)
    line = line.encode(detail=alt.Detail("series:N"), opacity=lit(hover, 0.6 if alone else marks.FAINT))
    if chart.predicted:
        dashes = alt.Scale(domain=[MEASURED, chart.dashed], range=[[1, 0], [6, 4]])
        legend = alt.Legend(title=None, orient="top", symbolOpacity=1, symbolSize=600)
        line = line.encode(strokeDash=alt.StrokeDash("kind:N", scale=dashes, legend=legend))
    layers = [*_rules(chart, frame), line]
    measured = alt.datum.kind == MEASURED
    if chart.y.error and alone:
        bar = base.transform_filter(measured).mark_rule()
        ends = {"y": marks.y(chart.y, frame, "y_low"), "y2": alt.Y2("y_high")}
        layers.append(bar.encode(**ends, opacity=lit(hover, 0.5)))
    place = marks.of_place(frame)
    series = {} if chart.series in place else {"series": chart.series}
    titles = place | series | _titles(chart)
    shown = placed.transform_filter(measured)
    size, opacity = (45, marks.PLAIN) if alone else (16, marks.FAINT)
    points = marks.dots(shown, key, hover, titles, size, opacity)
    layers.append(points.add_params(hover, marks.zoom(name)))
    if not alone:
        layers = mean_over_band(means, chart, frame, key, layers)
    return alt.LayerChart(
        layer=layers,
        height=CHART_HEIGHT,
        description=f"{chart.y.title} over {chart.x.title}: {frame['series'].n_unique()} lines.",
    )


def _rules(chart: Lines, frame: pl.DataFrame) -> list[alt.Chart]:
    """The dashed lines at `marked` and `level`, each with its label beside it."""
    drawn: list[alt.Chart] = []
    if chart.marked is not None:
        at = alt.Chart(pl.DataFrame({"x": [chart.marked.x], "label": [chart.marked.label]}))
        drawn += _dashed(at.encode(x=marks.x(chart.x, frame)), baseline="bottom", dx=-1, y=-3)
    if chart.level is not None:
        at = alt.Chart(pl.DataFrame({"y": [chart.level], "label": ["entropy"]}))
        drawn += _dashed(at.encode(y=marks.y(chart.y, frame)), baseline="bottom", dy=-2, x=4)
    return drawn


def _dashed(at: alt.Chart, **placed: Any) -> list[alt.Chart]:
    label = at.mark_text(align="left", fontSize=12, color=marks.SOFT_INK, clip=False, **placed)
    return [at.mark_rule(strokeDash=[5, 4], color=marks.SOFT_INK), label.encode(text=alt.Text("label:N"))]


def _landscape(chart: Landscape, data: pl.DataFrame, name: str) -> alt.LayerChart | Markup:
    """The heights as a heat map, with what has no height as dots and paths; NOTHING without heights."""
    axes = {"x": chart.x.column, "y": chart.y.column, "height": chart.height.column}
    columns = axes | {"colour": chart.series.column}
    if not set(columns.values()) <= set(data.columns):
        return NOTHING
    frame = data.select(**{name: pl.col(column) for name, column in columns.items()})
    cells, points = frame.filter(pl.col("height").is_not_null()), frame.filter(pl.col("height").is_null())
    if cells.is_empty():
        return NOTHING
    layers = [_heat_map(chart, cells).add_params(marks.zoom(name))]
    if not points.is_empty():
        layers += _paths(chart, points)
    return alt.LayerChart(
        layer=layers,
        width=SIDE,
        height=SIDE,
        description=f"{chart.height.title} over {chart.x.title} and {chart.y.title}.",
    )


def _heat_map(chart: Landscape, cells: pl.DataFrame) -> alt.Chart:
    half = {side: _spacing(cells[side]) / 2 for side in ("x", "y")}
    corners = cells.with_columns(
        *((pl.col(side) - half[side]).alias(f"{side}_low") for side in half),
        *((pl.col(side) + half[side]).alias(f"{side}_high") for side in half),
    )
    # The square root widens the valley, where everything of interest happens.
    shade = alt.Scale(type="sqrt", scheme=alt.SchemeParams(name="greys", extent=[0.0, 0.7]))
    ends = {side: corners[f"{side}_low", f"{side}_high"].to_numpy() for side in half}
    scale = {side: alt.Scale(domain=[float(e.min()), float(e.max())], nice=False) for side, e in ends.items()}
    bare = alt.Axis(grid=False)
    shown = {"x": chart.x, "y": chart.y, "height": chart.height}
    drawn: alt.Chart = (
        alt.Chart(corners)
        .mark_rect()
        .encode(
            x=alt.X("x_low:Q", title=chart.x.title, axis=bare, scale=scale["x"]),
            x2=alt.X2("x_high"),
            y=alt.Y("y_low:Q", title=chart.y.title, axis=bare, scale=scale["y"]),
            y2=alt.Y2("y_high"),
            color=alt.Color("height:Q", scale=shade, legend=alt.Legend(title=chart.height.title)),
            tooltip=[alt.Tooltip(f"{k}:Q", title=axis.title, format=".3g") for k, axis in shown.items()],
        )
    )
    return drawn


def _spacing(centres: pl.Series) -> float:
    """The distance of neighbouring cells of a regular grid; 1 if there is only one."""
    places = centres.unique().sort()
    return float(places[1] - places[0]) if len(places) > 1 else 1.0


def _paths(chart: Landscape, points: pl.DataFrame) -> list[alt.Chart]:
    counted = points.with_row_index("order").with_columns(length=pl.len().over("colour"))
    by = colour(key_of(points, replace(chart.series, column="colour")))
    base = alt.Chart(counted).encode(x=alt.X("x:Q"), y=alt.Y("y:Q"), color=by)
    single = alt.datum.length == 1
    paths = base.transform_filter(~single).encode(order=alt.Order("order:Q"))
    dots = base.transform_filter(single).mark_point(filled=True, size=130, clip=True, opacity=1)
    # The legend of the paths names dots too.
    return [paths.mark_line(strokeWidth=1.5, clip=True), dots.encode(color=by.legend(None))]
