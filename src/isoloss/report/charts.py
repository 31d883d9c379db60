"""Drawing every kind of chart that a panel can have."""

from typing import assert_never

import altair as alt
import polars as pl
from markupsafe import Markup, escape

from isoloss.panels import Bars, Categories, Chart, Dots, Landscape, Lines, Table, Tree, TreeNode
from isoloss.report import marks
from isoloss.report.marks import CHART_HEIGHT, NOTHING, Drawing, colour, domain, lit, plotted
from isoloss.report.table import draw_table

MEASURED = "measured"
ROW_HEIGHT = 26
SIDE = 420
"""Width and height of a landscape in pixels: one unit of x is as long as one of y."""
LEVEL_HEIGHT, WORD_WIDTH, MARGIN = 44.0, 62.0, 24.0
"""Of a tree, in pixels."""


def draw(chart: Chart, data: pl.DataFrame, name: str) -> Drawing:
    """The chart; `name` is unique on its page, and made of letters, digits and underscores.

    >>> from isoloss.panels import Axis, Colour
    >>> data = pl.DataFrame({"loss": [1.5, 1.4], "trace": [9.0, 8.0], "width": [16, 32]})
    >>> chart = Dots(Axis("loss", "loss"), Axis("trace", "trace"), Colour("width", "width", ordered=True))
    >>> [layer.mark.type for layer in draw(chart, data, "a").layer]
    ['point']
    """
    match chart:
        case Table():
            return draw_table(chart, data)
        case Tree():
            return tree_picture(chart.root)
        case Landscape():
            axes = {"x": chart.x.column, "y": chart.y.column, "height": chart.height.column}
            columns = axes | {"colour": chart.series.column}
            if not set(columns.values()) <= set(data.columns):
                return NOTHING
            frame = data.select(**{name: pl.col(column) for name, column in columns.items()})
            known = frame["height"].is_not_null().any()
            return _landscape(chart, frame, name) if known else NOTHING
        case Dots():
            frame = plotted(data, {"x": chart.x, "y": chart.y}, chart.colour)
            return NOTHING if frame.is_empty() else _dots(chart, frame, name)
        case Lines():
            others = {"series": chart.series} | ({"predicted": chart.predicted} if chart.predicted else {})
            frame = plotted(data, {"x": chart.x, "y": chart.y}, chart.colour, **others)
            return NOTHING if frame.is_empty() else _lines(chart, frame, name)
        case Categories():
            frame = plotted(data, {"x": chart.y}, chart.colour, category=chart.category)
            return NOTHING if frame.is_empty() else _categories(chart, frame, name)
        case Bars():
            frame = plotted(data, {"x": chart.y}, chart.colour, category=chart.category)
            return NOTHING if frame.is_empty() else _bars(chart, frame, name)
        case _:
            assert_never(chart)


def _categories(chart: Categories, frame: pl.DataFrame, name: str) -> alt.LayerChart:
    """With values on the x axis, so that categories are readable."""
    hover = marks.hovered(name, "colour")
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
        color=colour(frame, chart.colour),
        opacity=lit(hover, 0.5),
    )
    categories = frame["category"].n_unique()
    rows = categories * max(1, len(domain(frame, chart.colour)) // 2)
    return alt.LayerChart(layer=[bars, points] if chart.y.error else [points]).properties(
        height=max(CHART_HEIGHT, ROW_HEIGHT * rows),
        description=f"{chart.y.title} of {categories} categories.",
    )


def _bars(chart: Bars, frame: pl.DataFrame, name: str) -> alt.LayerChart:
    """As categories, from zero, since lengths are compared."""
    hover = marks.hovered(name, "colour")
    base = alt.Chart(frame).encode(
        y=alt.Y("category:N", title=None, sort=None, axis=alt.Axis(labelLimit=240)),
        yOffset=alt.YOffset("colour:N", sort=None, scale=alt.Scale(paddingOuter=0.15)),
    )
    titles = {"category": chart.category, "colour": chart.colour.title, "x_text": chart.y.title}
    scale, axis = alt.Scale(zero=True, nice=True), marks.ticks(chart.y, frame["x"])
    bars = base.mark_bar().encode(
        x=alt.X("x:Q", title=chart.y.title, scale=scale, axis=axis),
        color=colour(frame, chart.colour),
        opacity=lit(hover, marks.PLAIN),
        tooltip=marks.tooltip(titles),
    )
    errors = base.mark_rule(color="#333").encode(x="x_low:Q", x2="x_high")
    categories = frame["category"].n_unique()
    return alt.LayerChart(layer=[bars.add_params(hover), errors]).properties(
        height=ROW_HEIGHT * categories * max(1.0, len(domain(frame, chart.colour)) / 2),
        description=f"{chart.y.title} of {categories} categories, as bars.",
    )


def _dots(chart: Dots, frame: pl.DataFrame, name: str) -> alt.LayerChart:
    """With a run's path while one of its dots is hovered."""
    base = alt.Chart(frame).encode(color=colour(frame, chart.colour))
    hover = marks.hovered(name, "run" if "run" in frame.columns else "colour")
    layers = []
    if {"run", "step"} <= set(frame.columns):
        path = base.mark_line(strokeWidth=1.5, interpolate="linear")
        only_hovered = alt.when(hover, empty=False).then(alt.value(0.7)).otherwise(alt.value(0))
        layers.append(path.encode(x="x:Q", y="y:Q", order="step:Q", detail="run:N", opacity=only_hovered))
    bar = base.mark_rule().encode(opacity=lit(hover, 0.5))
    if chart.x.error:
        layers.append(bar.encode(x=marks.x(chart.x, frame, "x_low"), x2="x_high", y="y:Q"))
    if chart.y.error:
        layers.append(bar.encode(x="x:Q", y=marks.y(chart.y, frame, "y_low"), y2="y_high"))
    titles = marks.of_place(frame) | _titles(chart)
    placed = base.encode(x=marks.x(chart.x, frame), y=marks.y(chart.y, frame))
    points = marks.dots(placed, frame, chart.colour, hover, titles, size=70)
    return alt.LayerChart(layer=[*layers, points.add_params(hover, marks.zoom(name))]).properties(
        height=CHART_HEIGHT, description=f"{chart.y.title} against {chart.x.title}: {len(frame)} dots."
    )


def _titles(chart: Dots | Lines) -> dict[str, str]:
    """What a dot says on hover besides its place."""
    return {"colour": chart.colour.title, "x_text": chart.x.title, "y_text": chart.y.title}


def _lines(chart: Lines, frame: pl.DataFrame, name: str) -> alt.LayerChart:
    """Through measured rows' dots; if all rows are predicted, invisible dots still show their numbers."""
    predicted = pl.col("predicted").fill_null(value=False) if chart.predicted else pl.lit(value=False)
    frame = frame.with_columns(kind=pl.when(predicted).then(pl.lit(chart.dashed)).otherwise(pl.lit(MEASURED)))
    hover = marks.hovered(name, "series")
    base = alt.Chart(frame).encode(x=marks.x(chart.x, frame), color=colour(frame, chart.colour))
    placed = base.encode(y=marks.y(chart.y, frame))
    line = placed.mark_line().encode(detail="series:N", opacity=lit(hover, 0.6))
    if chart.predicted:
        dashes = alt.Scale(domain=[MEASURED, chart.dashed], range=[[1, 0], [6, 4]])
        legend = alt.Legend(title=None, orient="top", symbolOpacity=1)
        line = line.encode(strokeDash=alt.StrokeDash("kind:N", scale=dashes, legend=legend))
    layers = [line]
    if chart.marked is not None:
        rule = alt.Chart(pl.DataFrame({"x": [chart.marked]})).mark_rule(strokeDash=[5, 4], color="#555")
        layers.insert(0, rule.encode(x=marks.x(chart.x, frame)))
    measured = alt.datum.kind == MEASURED
    if chart.y.error:
        bar = base.transform_filter(measured).mark_rule()
        ends = {"y": marks.y(chart.y, frame, "y_low"), "y2": "y_high"}
        layers.append(bar.encode(**ends, opacity=lit(hover, 0.5)))
    place = marks.of_place(frame)
    series = {} if chart.series in place else {"series": chart.series}
    titles = place | series | _titles(chart)
    points = marks.dots(placed.transform_filter(measured), frame, chart.colour, hover, titles, size=45)
    layers.append(points.add_params(hover, marks.zoom(name)))
    return alt.LayerChart(layer=layers).properties(
        height=CHART_HEIGHT,
        description=f"{chart.y.title} over {chart.x.title}: {frame['series'].n_unique()} lines.",
    )


def _landscape(chart: Landscape, frame: pl.DataFrame, name: str) -> alt.LayerChart:
    cells, points = frame.filter(pl.col("height").is_not_null()), frame.filter(pl.col("height").is_null())
    layers = [_heat_map(chart, cells).add_params(marks.zoom(name))]
    if not points.is_empty():
        layers += _paths(chart, points)
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
            x2="x_high",
            y=alt.Y("y_low:Q", title=chart.y.title, axis=bare, scale=scale["y"]),
            y2="y_high",
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
    by = colour(counted, chart.series)
    base = alt.Chart(counted).encode(x="x:Q", y="y:Q", color=by)
    single = alt.datum.length == 1
    paths = base.transform_filter(~single).encode(order="order:Q")
    dots = base.transform_filter(single).mark_point(filled=True, size=130, clip=True, opacity=1)
    # The legend of the paths names dots too.
    return [paths.mark_line(strokeWidth=1.5, clip=True), dots.encode(color=by.legend(None))]


def tree_picture(root: TreeNode) -> Markup:
    """Return an SVG element that draws the tree, scalable and readable in black and white.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Leaf:
    ...     label: str
    ...     children: tuple = ()
    >>> tree_picture(Leaf("S", (Leaf("a"), Leaf("b")))).count("<line")
    2
    """
    depth = _depth(root)
    body, _, words = _drawn_node(root, 0, 0, depth)
    width = 2 * MARGIN + words * WORD_WIDTH
    height = 2 * MARGIN + depth * LEVEL_HEIGHT
    return Markup(
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="derivation tree" '
        f'xmlns="http://www.w3.org/2000/svg" style="max-width:{width:g}px;width:100%">{"".join(body)}</svg>'
    )


def _depth(node: TreeNode) -> int:
    return max([0, *(1 + _depth(child) for child in node.children)])


def _drawn_node(node: TreeNode, left: int, level: int, depth: int) -> tuple[list[str], float, int]:
    """A node with everything below it, its x, and its number of words; `left` words stand before it."""
    y = MARGIN + (level if node.children else depth) * LEVEL_HEIGHT
    below, places, words = [], [], 0
    for child in node.children:
        parts, x, of_child = _drawn_node(child, left + words, level + 1, depth)
        below.append((x, MARGIN + (level + 1 if child.children else depth) * LEVEL_HEIGHT, parts))
        places.append(x)
        words += of_child
    x = (places[0] + places[-1]) / 2 if places else MARGIN + (left + 0.5) * WORD_WIDTH
    drawn = []
    for child_x, child_y, parts in below:
        drawn.append(
            f'<line x1="{x:g}" y1="{y + 7:g}" x2="{child_x:g}" y2="{child_y - 13:g}" '
            'stroke="currentColor" stroke-width="1" opacity="0.55"/>'
        )
        drawn += parts
    style = 'font-weight="600"' if node.children else 'font-style="italic"'
    drawn.append(
        f'<text x="{x:g}" y="{y:g}" text-anchor="middle" font-size="13" fill="currentColor" '
        f"{style}>{escape(node.label)}</text>"
    )
    return drawn, x, words or 1
