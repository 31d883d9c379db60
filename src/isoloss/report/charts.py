"""Every kind of chart that a panel can have, drawn."""

from typing import assert_never

import polars as pl

from isoloss.panels import Categories, Chart, Dots, Landscape, Lines, Table, Tree
from isoloss.report.categories import draw_categories
from isoloss.report.dots import draw_dots
from isoloss.report.drawing import Drawing
from isoloss.report.landscape import draw_landscape
from isoloss.report.lines import draw_lines
from isoloss.report.table import draw_table
from isoloss.report.tree import tree_picture


def draw(chart: Chart, data: pl.DataFrame, name: str) -> Drawing:
    """The chart; `name` is unique on its page, and made of letters, digits and underscores."""
    match chart:
        case Dots():
            return draw_dots(chart, data, name)
        case Lines():
            return draw_lines(chart, data, name)
        case Categories():
            return draw_categories(chart, data, name)
        case Table():
            return draw_table(chart, data)
        case Landscape():
            return draw_landscape(chart, data, name)
        case Tree():
            return tree_picture(chart.root)
        case _:
            assert_never(chart)
