"""A table of numbers as HTML, each with its error."""

from collections.abc import Iterable, Sequence

import polars as pl
from markupsafe import Markup

from isoloss.panels import Axis, Table
from isoloss.report.marks import NOTHING
from isoloss.results.number import as_text


def html_table(titles: Sequence[str], rows: Iterable[Sequence[Markup]]) -> Markup:
    """Titles over rows of cells that are `td` elements; it scrolls if it is wider than the page."""
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(title) for title in titles)
    body = Markup("").join(Markup("<tr>{}</tr>").format(Markup("").join(cells)) for cells in rows)
    table = Markup('<table class="numbers"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>')
    return Markup('<div class="scroll" tabindex="0">{}</div>').format(table.format(head, body))


def cell(value: object, error: object = None) -> Markup:
    """A value as text, with its error if that is a number.

    >>> cell(8.0, 0.5), cell("<SGD>")
    (Markup('<td class="number">8.00 ± 0.50</td>'), Markup('<td>&lt;SGD&gt;</td>'))
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    element = Markup('<td class="number">{}</td>') if is_number else Markup("<td>{}</td>")
    return element.format(as_text(value, error if isinstance(error, float) else None))


def draw_table(chart: Table, data: pl.DataFrame) -> Markup:
    """The rows of `data` in order; the cells of a column that has not been measured contain a dash."""
    if data.is_empty():
        return NOTHING
    rows = data.iter_rows(named=True)
    return html_table(
        [axis.title for axis in chart.columns],
        ([cell(row.get(axis.column), row.get(axis.error)) for axis in chart.columns] for row in rows),
    )


def every_column(data: pl.DataFrame) -> Table:
    """All columns of `data`, each with its error if another column is named accordingly.

    >>> every_column(pl.DataFrame({"trace": [1.0], "trace_error": [0.1]})).columns
    (Axis(column='trace', title='trace', error='trace_error', logarithmic=False),)
    """
    errors = {f"{name}_error": name for name in data.columns if f"{name}_error" in data.columns}
    names = [name for name in data.columns if name not in errors]
    by_name = {name: error for error, name in errors.items()}
    return Table(tuple(Axis(name, name.replace("_", " "), by_name.get(name, "")) for name in names))
