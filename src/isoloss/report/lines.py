"""Lines through dots, predictions dashed; hovering brings out one line."""

import altair as alt
import polars as pl

from isoloss.panels import Lines
from isoloss.report import marks
from isoloss.report.colours import colour
from isoloss.report.drawing import CHART_HEIGHT, NOTHING, Drawing
from isoloss.report.plotted import plotted

MEASURED = "measured"


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
            x=marks.x(chart.x),
            y=marks.y(chart.y),
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
        layers.insert(0, rule.encode(x=marks.x(chart.x)))
    return alt.LayerChart(layer=layers).properties(
        height=CHART_HEIGHT,
        description=f"{chart.y.title} over {chart.x.title}: {frame['series'].n_unique()} lines.",
    )


def _dots(chart: Lines, frame: pl.DataFrame, hover: alt.Parameter, name: str) -> list[alt.Chart]:
    """The measured rows; where all are predicted, dots without ink still tell their numbers on hover."""
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
    placed = base.encode(x=marks.x(chart.x), y=marks.y(chart.y))
    points = marks.dots(placed, frame, chart.colour, hover, titles, size=45)
    points = points.add_params(hover, marks.zoom(name))
    if not chart.y.error:
        return [points]
    bars = base.mark_rule().encode(
        x=marks.x(chart.x),
        y=marks.y(chart.y, "y_low"),
        y2="y_high",
        color=colour(frame, chart.colour),
        opacity=alt.when(hover).then(alt.value(0.5)).otherwise(alt.value(marks.FADED)),
    )
    return [bars, points]
