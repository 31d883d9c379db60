"""Dots with error bars on both axes; hovering one brings out the others of its run, and their order."""

import altair as alt
import polars as pl

from isoloss.panels import Dots
from isoloss.report import marks
from isoloss.report.colours import colour
from isoloss.report.drawing import CHART_HEIGHT, NOTHING, Drawing
from isoloss.report.plotted import plotted


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
        across = base.mark_rule().encode(x=marks.x(chart.x, "x_low"), x2="x_high", y="y:Q", opacity=bars)
        layers.append(across)
    if chart.y.error:
        layers.append(
            base.mark_rule().encode(x="x:Q", y=marks.y(chart.y, "y_low"), y2="y_high", opacity=bars)
        )
    titles = {
        **marks.of_place(frame),
        "colour": chart.colour.title,
        "x_text": chart.x.title,
        "y_text": chart.y.title,
    }
    placed = base.encode(x=marks.x(chart.x), y=marks.y(chart.y))
    points = marks.dots(placed, frame, chart.colour, hover, titles, size=70)
    layers = [layer.encode(color=by) for layer in layers]
    return alt.LayerChart(layer=[*layers, points.add_params(hover, marks.zoom(name))]).properties(
        height=CHART_HEIGHT, description=f"{chart.y.title} against {chart.x.title}: {len(frame)} dots."
    )
