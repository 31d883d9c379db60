"""Rows of a table as a picture: a line a category, its dots side by side with their bars."""

import altair as alt
import polars as pl

from isoloss.panels import Categories
from isoloss.report import marks
from isoloss.report.colours import colour, domain
from isoloss.report.drawing import CHART_HEIGHT, NOTHING, Drawing
from isoloss.report.plotted import plotted

ROW_HEIGHT = 26


def draw_categories(chart: Categories, data: pl.DataFrame, name: str) -> Drawing:
    """The chart, its values across so that categories can be read; `name` as in `draw_dots`."""
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
    placed = base.encode(x=marks.x(chart.y))
    points = marks.dots(placed, frame, chart.colour, hover, titles, size=70).add_params(hover)
    bars = base.mark_rule().encode(
        x=marks.x(chart.y, "x_low"),
        x2="x_high",
        color=by,
        opacity=alt.when(hover).then(alt.value(0.5)).otherwise(alt.value(marks.FADED)),
    )
    rows = frame["category"].n_unique() * max(1, len(domain(frame, chart.colour)) // 2)
    return alt.LayerChart(layer=[bars, points] if chart.y.error else [points]).properties(
        height=max(CHART_HEIGHT, ROW_HEIGHT * rows),
        description=f"{chart.y.title} of {frame['category'].n_unique()} categories.",
    )
