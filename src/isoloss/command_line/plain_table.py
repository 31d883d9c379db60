"""Tables of plain lines, with as many columns and as much of names as a line has room for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Row = Mapping[str, str]

GAP = "  "
SHORTEST_NAME = 24
"""Characters of the first column for which others are left out; two names that are cut look alike."""


def without_middle(name: str, longest: int) -> str:
    """The name, or as much as fits of its beginning and its end, which tell alike names apart.

    >>> without_middle("causal-lm-opening-4-larger-is-better", 24)
    'causal-lm-op…r-is-better'
    """
    if len(name) <= longest:
        return name
    end = (longest - 1) // 2
    return f"{name[: longest - 1 - end]}…{name[len(name) - end :]}"


@dataclass(frozen=True)
class PlainTable:
    """Rows below the titles of their groups, whose cells are named by their columns.

    `groups` has an empty title for rows of none. The first of the `columns` is shown always, and is cut where
    nothing else is left to leave out. Where a line is too narrow, columns go in the order of `least_first`,
    then from the last. `numbers` are set to the right.

    >>> table = PlainTable({"": [{"run": "width-32", "loss": "1.4"}]}, ("run", "loss"), {"loss"})
    >>> table.lines(None), table.lines(14)
    (['run       loss', 'width-32   1.4'], ['run       loss', 'width-32   1.4'])
    >>> table.lines(10)
    ['run', 'width-32', '--wide has more']
    """

    groups: Mapping[str, Sequence[Row]]
    columns: Sequence[str]
    numbers: frozenset[str] | set[str] = frozenset()
    least_first: Sequence[str] = ()
    of_no_group: str = ""

    def lines(self, width: int | None) -> list[str]:
        """The columns' names, a line a row, and what is not shown; at most `width` characters each."""
        if not self.columns:
            return []
        widths = {name: self._width(name) for name in self.columns}
        indent = GAP if any(self.groups) else ""
        hidden: list[str] = []
        if width is not None:
            hidden = self._without_room(widths, width - len(indent))
            first, *others = (name for name in self.columns if name not in hidden)
            rest = sum(len(GAP) + widths[name] for name in others)
            widths = {first: min(widths[first], max(1, width - len(indent) - rest))} | {
                name: widths[name] for name in others
            }
        written = [self._line({name: name for name in widths}, widths, indent)]
        for title, rows in self.groups.items():
            if indent:
                written.append(title or self.of_no_group)
            written += [self._line(row, widths, indent) for row in rows]
        return [*written, *_not_shown(hidden, width)]

    def _width(self, column: str) -> int:
        cells = (len(row.get(column, "")) for rows in self.groups.values() for row in rows)
        return max(len(column), *cells)

    def _without_room(self, widths: Mapping[str, int], width: int) -> list[str]:
        first, *shown = self.columns
        least = min(widths[first], SHORTEST_NAME)
        while shown and least + sum(len(GAP) + widths[name] for name in shown) > width:
            shown.remove(next((name for name in self.least_first if name in shown), shown[-1]))
        return [name for name in self.columns[1:] if name not in shown]

    def _line(self, row: Row, widths: Mapping[str, int], indent: str) -> str:
        cells = []
        for name, width in widths.items():
            text = without_middle(row.get(name, ""), width)
            cells.append(text.rjust(width) if name in self.numbers else text.ljust(width))
        return f"{indent}{GAP.join(cells)}".rstrip()


def _not_shown(hidden: Sequence[str], width: int | None) -> list[str]:
    if not hidden:
        return []
    for columns in (", ".join(hidden), f"{len(hidden)} columns"):
        line = f"not shown: {columns} (--wide)"
        if width is None or len(line) <= width:
            return [line]
    return ["--wide has more"]
