"""A height over the plane as a heat map, with lines over it."""

import altair as alt
import polars as pl

from isoloss.panels import Landscape
from isoloss.report import marks
from isoloss.report.colours import colour
from isoloss.report.marks import NOTHING, Drawing

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
    # The square root opens up the valley, where all that matters happens.
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
    """Between neighbouring cells of a regular grid; 1 where there is a single one."""
    places = centres.unique().sort()
    return float(places[1] - places[0]) if len(places) > 1 else 1.0
