"""Numbers as HTML: tables of them, each with its error, and what was measured about a claim."""

import math
from collections.abc import Iterable, Sequence

import polars as pl
from markupsafe import Markup

from isoloss.experiments.claims import Judgement
from isoloss.panels import Axis, Table
from isoloss.report.marks import NOTHING
from isoloss.results.record import as_text

WIDTH, HEIGHT, MARGIN = 132, 18, 6
"""Of the picture of an interval, in pixels."""


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


def interval_picture(judged: Judgement) -> Markup:
    """An SVG element: a dot with its interval, bounds as dashed lines, the claimed region shaded.

    Empty if there is no interval. The numbers are beside it as text, so screen readers skip it.
    """
    claimed, effect = judged.claim.claimed, judged.effect
    if not all(map(math.isfinite, (judged.low, judged.high, effect))):
        return Markup()
    least, most = min(judged.low, *claimed.bounds), max(judged.high, *claimed.bounds)
    # A bound is never at an edge, so that both of its sides are visible.
    reach = (most - least or 1.0) * 0.15
    least, most = (least - reach, most + reach)

    def place(value: float) -> str:
        return f"{MARGIN + (WIDTH - 2 * MARGIN) * (value - least) / (most - least):.1f}"

    left = place(claimed.low) if math.isfinite(claimed.low) else "0"
    right = place(claimed.high) if math.isfinite(claimed.high) else f"{WIDTH}"
    middle = HEIGHT / 2
    bounds = "".join(
        f'<line class="threshold" x1="{place(bound)}" x2="{place(bound)}" y1="0" y2="{HEIGHT}"/>'
        for bound in claimed.bounds
    )
    return Markup(
        f'<svg class="interval" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'aria-hidden="true">'
        f'<rect class="claimed" x="{left}" y="0" width="{float(right) - float(left):.1f}" height="{HEIGHT}"/>'
        f"{bounds}"
        f'<line x1="{place(judged.low)}" x2="{place(judged.high)}" y1="{middle}" y2="{middle}"/>'
        f'<circle cx="{place(effect)}" cy="{middle}" r="4"/></svg>'
    )


def in_numbers(judged: Judgement) -> str:
    """What was measured, and the claim about it."""
    unit = f" {judged.claim.unit}".rstrip()
    if not math.isfinite(judged.effect):
        measured = "Undefined" if judged.runs else "Not measured"
    elif math.isfinite(judged.low + judged.high):
        measured = f"Measured {judged.effect:.3g} ({judged.low:.3g} to {judged.high:.3g}){unit}"
    else:
        measured = f"Measured {judged.effect:.3g}{unit}"
    more = f"; {judged.seeds_needed} seeds would decide it" if judged.seeds_needed else ""
    return f"{measured}, claimed {judged.claim.claimed}{more}."
