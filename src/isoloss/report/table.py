"""Numbers as tables in HTML, each with its error, claims as a table in LaTeX, and derivation trees."""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import polars as pl
from markupsafe import Markup, escape

from isoloss.experiments.claims import Judgement
from isoloss.panels import Axis, Table, TreeNode
from isoloss.report.marks import NOTHING
from isoloss.results.estimate import Estimate
from isoloss.results.record import ABSENT, Record, as_text

WIDTH, HEIGHT, MARGIN = 132, 18, 6
"""Of the picture of an interval, in pixels."""


def html_table(titles: Sequence[str], rows: Iterable[Iterable[object]]) -> Markup:
    """Titles over rows of what is in each `cell`; it scrolls if it is wider than the page."""
    head = Markup("").join(Markup('<th scope="col">{}</th>').format(title) for title in titles)
    body = Markup("").join(Markup("<tr>{}</tr>").format(Markup("").join(map(cell, row))) for row in rows)
    table = Markup('<table class="numbers"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>')
    return Markup('<div class="scroll" tabindex="0">{}</div>').format(table.format(head, body))


def cell(value: object, error: object = None) -> Markup:
    """A value as text, with its error if that is a number; a `td` element that is ready stays as it is.

    >>> cell(Estimate(8.0, 0.5, 9)), cell("<SGD>")
    (Markup('<td class="number">8.00 ± 0.50</td>'), Markup('<td>&lt;SGD&gt;</td>'))
    """
    if isinstance(value, Markup):
        return value
    is_number = isinstance(value, int | float | Estimate | Record) and not isinstance(value, bool)
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
    errors = {name: f"{name}_error" for name in data.columns if f"{name}_error" in data.columns}
    names = [name for name in data.columns if name not in errors.values()]
    return Table(tuple(Axis(name, name.replace("_", " "), errors.get(name, "")) for name in names))


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
    measured = judged.why_undefined.capitalize() or f"Measured {_measured(judged)}"
    more = f"; {judged.seeds_needed} seeds would decide it" if judged.seeds_needed else ""
    return f"{measured}, claimed {judged.claim.reading.region(judged.claim.claimed)}{more}."


def _measured(judged: Judgement) -> str:
    read = judged.claim.reading
    return f"{read.numbers(judged.effect, judged.low, judged.high)} {read.unit}".rstrip()


_PLAIN = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "<": "$<$", ">": "$>$", "|": "$|$",
    "“": "``", "”": "''", "’": "'", "‘": "`", "–": "--", "—": "---",
    "…": r"\dots{}", "\N{NO-BREAK SPACE}": "~",
}  # fmt: skip
_MATHEMATICS = {
    "α": r"\alpha", "β": r"\beta", "Γ": r"\Gamma", "Δ": r"\Delta", "ε": r"\varepsilon", "η": r"\eta",
    "θ": r"\theta", "λ": r"\lambda", "ρ": r"\rho", "Σ": r"\Sigma", "σ": r"\sigma", "τ": r"\tau",
    "∇": r"\nabla", "‖": r"\|", "√": r"\surd", "−": "-", "±": r"\pm", "×": r"\times", "·": r"\cdot",
    "≤": r"\le", "≥": r"\ge", "∞": r"\infty", "→": r"\to", "²": "^2", "³": "^3",
}  # fmt: skip
_MINUS = re.compile(r"(?<![\w)])-(?=[\d(])")
_MACRON = "\N{COMBINING MACRON}"
_SHARES = (0.29, 0.20, 0.16, 0.12, 0.13)
"""The share of the text's width of each column; the remainder is the space between them."""

_COLUMNS = "".join(rf">{{\raggedright\arraybackslash}}p{{{share:.2f}\textwidth}}" for share in _SHARES)


def claims_as_latex(judgements: Sequence[Judgement], name: str) -> str:
    """A table that spans both columns, effects before premises; its label is `tab:NAME-claims`."""
    effects, premises = (
        [judged for judged in judgements if judged.claim.role == role] for role in ("effect", "premise")
    )
    parts = [_rows(part) for part in (effects, premises) if part]
    caption = (
        f"Claims of {name}, each with its interval over seeds: effects first, judged jointly by Holm's "
        "procedure at 95 %; then premises, each judged on its own."
    )
    return "\n".join(
        [
            r"% \usepackage{array,booktabs}",
            r"\begin{table*}",
            r"  \centering\small\setlength{\tabcolsep}{4pt}",
            f"  \\caption{{{as_latex(caption)}}}",
            f"  \\label{{tab:{name}-claims}}",
            f"  \\begin{{tabular}}{{@{{}}{_COLUMNS}@{{}}}}",
            r"    \toprule",
            r"    Claim & The paper & Measured & Claimed & Verdict \\",
            r"    \midrule",
            "\n    \\midrule\n".join(parts),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table*}",
            "",
        ]
    )


def as_latex(text: str) -> str:
    r"""Text for LaTeX's text mode, in pure ASCII if every letter is known.

    A hyphen before a number becomes a minus, and no line breaks before a percent sign.

    >>> as_latex("0.12 % along τ = η²k̄ / 4B, -0.5 of ∇_Γ")
    '0.12~\\% along $\\tau$ = $\\eta^2\\bar{k}$ / 4B, $-$0.5 of $\\nabla_\\Gamma$'
    """
    written: list[str] = []
    text = _MINUS.sub("−", text).replace(" %", "\N{NO-BREAK SPACE}%")
    for letter in unicodedata.normalize("NFC", text):
        if letter == _MACRON:
            written[-1] = f"$\\bar{{{written[-1]}}}$"
        elif letter in _MATHEMATICS:
            written.append(f"${_MATHEMATICS[letter]}$")
        else:
            written.append(_PLAIN.get(letter, letter))
    formulae = re.sub(r"\$\\_\$", "_", "".join(written))
    return re.sub(r"(?<!\\)\$\$", "", formulae)  # adjacent formulae are joined


def _rows(judgements: Sequence[Judgement]) -> str:
    return "\n".join(f"    {' & '.join(map(as_latex, _cells(judged)))} \\\\" for judged in judgements)


def _cells(judged: Judgement) -> tuple[str, ...]:
    claim = judged.claim
    measured = _measured(judged) if math.isfinite(judged.effect) else ABSENT
    return claim.sentence, claim.paper, measured, claim.reading.region(claim.claimed), str(judged.verdict)


LEVEL_HEIGHT, WORD_WIDTH, TREE_MARGIN = 44.0, 62.0, 24.0
"""Of a tree, in pixels."""


def tree_picture(root: TreeNode) -> Markup:
    """Return an SVG element that draws the tree, scalable and readable in black and white.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Leaf:
    ...     label: str
    ...     children: tuple = ()
    >>> tree_picture(Leaf("S", (Leaf("a"), Leaf("b")))).count("<path")
    2
    """
    nodes = _top_down(root)
    depth, words = max(node.level for node in nodes), sum(node.last is None for node in nodes)
    body = _lines_and_labels(nodes, depth)
    width = 2 * TREE_MARGIN + words * WORD_WIDTH
    height = 2 * TREE_MARGIN + depth * LEVEL_HEIGHT
    return Markup(
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="derivation tree" '
        f'xmlns="http://www.w3.org/2000/svg" style="max-width:{width:g}px;width:100%">{"".join(body)}</svg>'
    )


@dataclass
class _Node:
    """A node of a tree, how far below the root and below which node it is, and its first and last child."""

    node: TreeNode
    level: int
    parent: "_Node | None"
    first: "_Node | None" = None
    last: "_Node | None" = None
    x: float = 0.0


def _top_down(root: TreeNode) -> list[_Node]:
    """All nodes, parents before their children, words from left to right; derivations may be deep."""
    found: list[_Node] = []
    left = [_Node(root, 0, None)]
    while left:
        found.append(node := left.pop())
        children = [_Node(child, node.level + 1, node) for child in node.node.children]
        if children:
            node.first, node.last = children[0], children[-1]
        left += reversed(children)
    return found


def _lines_and_labels(nodes: Sequence[_Node], depth: int) -> Iterator[str]:
    """SVG elements: words side by side at the bottom, every other node over the middle of its children.

    An edge to a word goes straight down from beside the word's siblings, so that it crosses no other.
    """
    words = (TREE_MARGIN + (place + 0.5) * WORD_WIDTH for place in count())
    for node in nodes:
        if node.last is None:
            node.x = next(words)
    for node in reversed(nodes):
        if node.first is not None and node.last is not None:
            node.x = (node.first.x + node.last.x) / 2
    for node in nodes:
        y = TREE_MARGIN + (depth if node.last is None else node.level) * LEVEL_HEIGHT
        if node.parent is not None:
            above = TREE_MARGIN + node.parent.level * LEVEL_HEIGHT
            beside = TREE_MARGIN + node.level * LEVEL_HEIGHT - 13
            down = f" V{y - 13:g}" if beside < y - 13 else ""
            yield (
                f'<path d="M{node.parent.x:g} {above + 7:g} L{node.x:g} {beside:g}{down}" fill="none" '
                'stroke="currentColor" stroke-width="1" opacity="0.55"/>'
            )
        style = 'font-style="italic"' if node.last is None else 'font-weight="600"'
        yield (
            f'<text x="{node.x:g}" y="{y:g}" text-anchor="middle" font-size="13" fill="currentColor" '
            f"{style}>{escape(node.node.label)}</text>"
        )
