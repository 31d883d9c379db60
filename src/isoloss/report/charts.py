"""Drawing every kind of chart that a panel can have."""

from typing import assert_never

import altair as alt
import polars as pl

from isoloss.panels import Bars, Categories, Chart, Dots, Landscape, Lines, Table, Tree
from isoloss.report import marks
from isoloss.report.marks import CHART_HEIGHT, NOTHING, Drawing, colour, domain, plotted
from isoloss.report.table import draw_table
from isoloss.report.tree import tree_picture

MEASURED = "measured"
ROW_HEIGHT = 26


def draw(chart: Chart, data: pl.DataFrame, name: str) -> Drawing:
    """The chart; `name` is unique on its page, and made of letters, digits and underscores."""
    match chart:
        case Dots():
            return draw_dots(chart, data, name)
        case Lines():
            return draw_lines(chart, data, name)
        case Categories():
            return draw_categories(chart, data, name)
        case Bars():
            return draw_bars(chart, data, name)
        case Table():
            return draw_table(chart, data)
        case Landscape():
            return draw_landscape(chart, data, name)
        case Tree():
            return tree_picture(chart.root)
        case _:
            assert_never(chart)


def draw_categories(chart: Categories, data: pl.DataFrame, name: str) -> Drawing:
    """The chart, with values on the x axis so that categories are readable; `name` as in `draw_dots`."""
    frame = plotted(data, {"x": chart.y}, chart.colour, category=chart.category)
    if frame.is_empty():
        return NOTHING
    by, hover = colour(frame, chart.colour), marks.hovered(name, "colour")
    row = alt.Y("category:N", title=None, sort=None, axis=alt.Axis(grid=True, labelLimit=240))
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
    points = marks.dots(placed, frame, chart.colour, hover, titles, size=70).add_params(hover)
    bars = base.mark_rule().encode(
        x=marks.x(chart.y, frame, "x_low"),
        x2="x_high",
        color=by,
        opacity=alt.when(hover).then(alt.value(0.5)).otherwise(alt.value(marks.FADED)),
    )
    rows = frame["category"].n_unique() * max(1, len(domain(frame, chart.colour)) // 2)
    return alt.LayerChart(layer=[bars, points] if chart.y.error else [points]).properties(
        height=max(CHART_HEIGHT, ROW_HEIGHT * rows),
        description=f"{chart.y.title} of {frame['category'].n_unique()} categories.",
    )


def draw_bars(chart: Bars, data: pl.DataFrame, name: str) -> Drawing:
    """The chart, with values on the x axis as in `draw_categories`, from zero, since lengths are compared."""
    frame = plotted(data, {"x": chart.y}, chart.colour, category=chart.category)
    if frame.is_empty():
        return NOTHING
    hover = marks.hovered(name, "colour")
    row = alt.Y("category:N", title=None, sort=None, axis=alt.Axis(labelLimit=240))
    beside = alt.YOffset("colour:N", sort=None, scale=alt.Scale(paddingOuter=0.15))
    base = alt.Chart(frame).encode(y=row, yOffset=beside)
    titles = {"category": chart.category, "colour": chart.colour.title, "x_text": chart.y.title}
    bars = base.mark_bar().encode(
        x=alt.X(
            "x:Q",
            title=chart.y.title,
            scale=alt.Scale(zero=True, nice=True),
            axis=marks.ticks(chart.y, frame["x"]),
        ),
        color=colour(frame, chart.colour),
        opacity=alt.when(hover).then(alt.value(marks.PLAIN)).otherwise(alt.value(marks.FADED)),
        tooltip=[alt.Tooltip(f"{column}:N", title=title) for column, title in titles.items()],
    )
    errors = base.mark_rule(color="#333").encode(x="x_low:Q", x2="x_high")
    rows = frame["category"].n_unique() * max(1.0, len(domain(frame, chart.colour)) / 2)
    return alt.LayerChart(layer=[bars.add_params(hover), errors]).properties(
        height=ROW_HEIGHT * rows,
        description=f"{chart.y.title} of {frame['category'].n_unique()} categories, as bars.",
    )


def draw_dots(chart: Dots, data: pl.DataFrame, name: str) -> Drawing:
    """The chart; `name` is unique on its page, and made of letters, digits and underscores.

    >>> from isoloss.panels import Axis, Colour
    >>> data = pl.DataFrame({"loss": [1.5, 1.4], "trace": [9.0, 8.0], "width": [16, 32]})
    >>> chart = Dots(Axis("loss", "loss"), Axis("trace", "trace"), Colour("width", "width", ordered=True))
    >>> drawn = draw_dots(chart, data, "a")
    >>> [layer.mark.type for layer in drawn.layer]
    ['point']
    """
    frame = plotted(data, {"x": chart.x, "y": chart.y}, chart.colour)
    if frame.is_empty():
        return NOTHING
    base, by = alt.Chart(frame), colour(frame, chart.colour)
    hover = marks.hovered(name, "run" if "run" in frame.columns else "colour")
    only_hovered = alt.when(hover, empty=False).then(alt.value(0.7)).otherwise(alt.value(0))
    bars = alt.when(hover).then(alt.value(0.5)).otherwise(alt.value(marks.FADED))
    layers = []
    if {"run", "step"} <= set(frame.columns):
        path = base.mark_line(strokeWidth=1.5, interpolate="linear")
        layers.append(path.encode(x="x:Q", y="y:Q", order="step:Q", detail="run:N", opacity=only_hovered))
    if chart.x.error:
        across = base.mark_rule().encode(
            x=marks.x(chart.x, frame, "x_low"), x2="x_high", y="y:Q", opacity=bars
        )
        layers.append(across)
    if chart.y.error:
        layers.append(
            base.mark_rule().encode(x="x:Q", y=marks.y(chart.y, frame, "y_low"), y2="y_high", opacity=bars)
        )
    titles = {
        **marks.of_place(frame),
        "colour": chart.colour.title,
        "x_text": chart.x.title,
        "y_text": chart.y.title,
    }
    placed = base.encode(x=marks.x(chart.x, frame), y=marks.y(chart.y, frame))
    points = marks.dots(placed, frame, chart.colour, hover, titles, size=70)
    layers = [layer.encode(color=by) for layer in layers]
    return alt.LayerChart(layer=[*layers, points.add_params(hover, marks.zoom(name))]).properties(
        height=CHART_HEIGHT, description=f"{chart.y.title} against {chart.x.title}: {len(frame)} dots."
    )


def draw_lines(chart: Lines, data: pl.DataFrame, name: str) -> Drawing:
    """The chart; `name` is unique on its page, and made of letters, digits and underscores."""
    others = {"series": chart.series} | ({"predicted": chart.predicted} if chart.predicted else {})
    frame = plotted(data, {"x": chart.x, "y": chart.y}, chart.colour, **others)
    if frame.is_empty():
        return NOTHING
    predicted = pl.col("predicted").fill_null(value=False) if chart.predicted else pl.lit(value=False)
    frame = frame.with_columns(kind=pl.when(predicted).then(pl.lit(chart.dashed)).otherwise(pl.lit(MEASURED)))
    by, hover = colour(frame, chart.colour), marks.hovered(name, "series")
    line = (
        alt.Chart(frame)
        .mark_line()
        .encode(
            x=marks.x(chart.x, frame),
            y=marks.y(chart.y, frame),
            detail="series:N",
            color=by,
            opacity=alt.when(hover).then(alt.value(0.6)).otherwise(alt.value(marks.FADED)),
        )
    )
    if chart.predicted:
        dashes = alt.Scale(domain=[MEASURED, chart.dashed], range=[[1, 0], [6, 4]])
        legend = alt.Legend(title=None, orient="top", symbolOpacity=1)
        line = line.encode(strokeDash=alt.StrokeDash("kind:N", scale=dashes, legend=legend))
    layers = [line, *_dots(chart, frame, hover, name)]
    if chart.marked is not None:
        rule = alt.Chart(pl.DataFrame({"x": [chart.marked]})).mark_rule(strokeDash=[5, 4], color="#555")
        layers.insert(0, rule.encode(x=marks.x(chart.x, frame)))
    return alt.LayerChart(layer=layers).properties(
        height=CHART_HEIGHT,
        description=f"{chart.y.title} over {chart.x.title}: {frame['series'].n_unique()} lines.",
    )


def _dots(chart: Lines, frame: pl.DataFrame, hover: alt.Parameter, name: str) -> list[alt.Chart]:
    """The measured rows; if all are predicted, invisible dots still show their numbers on hover."""
    base = alt.Chart(frame).transform_filter(alt.datum.kind == MEASURED)
    titles = {
        **marks.of_place(frame),
        "series": chart.series,
        "colour": chart.colour.title,
        "x_text": chart.x.title,
        "y_text": chart.y.title,
    }
    if chart.series in titles:
        del titles["series"]
    placed = base.encode(x=marks.x(chart.x, frame), y=marks.y(chart.y, frame))
    points = marks.dots(placed, frame, chart.colour, hover, titles, size=45)
    points = points.add_params(hover, marks.zoom(name))
    if not chart.y.error:
        return [points]
    bars = base.mark_rule().encode(
        x=marks.x(chart.x, frame),
        y=marks.y(chart.y, frame, "y_low"),
        y2="y_high",
        color=colour(frame, chart.colour),
        opacity=alt.when(hover).then(alt.value(0.5)).otherwise(alt.value(marks.FADED)),
    )
    return [bars, points]


SIDE = 420
"""Width and height in pixels: one unit of x is as long as one of y."""


def draw_landscape(chart: Landscape, data: pl.DataFrame, name: str) -> Drawing:
    """The chart; `name` is unique on its page, and made of letters, digits and underscores."""
    columns = (chart.x.column, chart.y.column, chart.height.column, chart.series.column)
    if not set(columns) <= set(data.columns):
        return NOTHING
    frame = data.select(
        x=pl.col(columns[0]), y=pl.col(columns[1]), height=pl.col(columns[2]), colour=pl.col(columns[3])
    )
    cells, points = frame.filter(pl.col("height").is_not_null()), frame.filter(pl.col("height").is_null())
    if cells.is_empty():
        return NOTHING
    layers = [_heat_map(chart, cells)]
    if not points.is_empty():
        layers += _lines(chart, points)
    layers[0] = layers[0].add_params(marks.zoom(name))
    return alt.LayerChart(layer=layers).properties(
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
    ends = {side: _ends(cells[side], half[side]) for side in half}
    # The square root widens the valley, where everything of interest happens.
    shade = alt.Scale(type="sqrt", scheme=alt.SchemeParams(name="greys", extent=[0.0, 0.7]))
    bare = alt.Axis(grid=False)
    drawn: alt.Chart = (
        alt.Chart(corners)
        .mark_rect()
        .encode(
            x=alt.X("x_low:Q", title=chart.x.title, axis=bare, scale=alt.Scale(domain=ends["x"], nice=False)),
            x2="x_high",
            y=alt.Y("y_low:Q", title=chart.y.title, axis=bare, scale=alt.Scale(domain=ends["y"], nice=False)),
            y2="y_high",
            color=alt.Color("height:Q", scale=shade, legend=alt.Legend(title=chart.height.title)),
            tooltip=[
                alt.Tooltip("x:Q", title=chart.x.title, format=".3g"),
                alt.Tooltip("y:Q", title=chart.y.title, format=".3g"),
                alt.Tooltip("height:Q", title=chart.height.title, format=".3g"),
            ],
        )
    )
    return drawn


def _lines(chart: Landscape, points: pl.DataFrame) -> list[alt.Chart]:
    counted = points.with_row_index("order").with_columns(length=pl.len().over("colour"))
    by = colour(counted, chart.series)
    base = alt.Chart(counted).encode(x="x:Q", y="y:Q", color=by)
    single = alt.datum.length == 1
    lines = base.transform_filter(~single).encode(order="order:Q")
    return [
        lines.mark_line(strokeWidth=1.5, clip=True),
        base.transform_filter(single)
        .mark_point(filled=True, size=130, clip=True, opacity=1)
        .encode(
            color=by.legend(None)  # the legend of the lines names dots too
        ),
    ]


def _ends(centres: pl.Series, half: float) -> list[float]:
    places = centres.to_numpy()
    return [float(places.min()) - half, float(places.max()) + half]


def _spacing(centres: pl.Series) -> float:
    """The distance of neighbouring cells of a regular grid; 1 if there is only one."""
    places = centres.unique().sort()
    return float(places[1] - places[0]) if len(places) > 1 else 1.0
