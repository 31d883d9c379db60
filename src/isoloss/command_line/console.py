"""Tables in a terminal, or lines for another program; numbers with the digits that their errors allow."""

import sys
from typing import NoReturn

from rich.console import Console

LINE = 1000


class _Table(Console):
    """A console that leaves it to the command line what is done where its reader has enough."""

    def on_broken_pipe(self) -> NoReturn:
        """Called by rich, which would leave with 1 as after a failure."""
        raise BrokenPipeError


def table_console() -> Console:
    """Standard output; where it is no terminal, each of a table's rows is a line, however long."""
    return _Table(highlight=False, width=None if sys.stdout.isatty() else LINE)


def value_with_error(value: float, error: float | None) -> str:
    """The value with as many digits as its error bar has two of; alone where it has none.

    >>> value_with_error(123.456, 0.0234), value_with_error(0.5, None)
    ('123.456 ± 0.023', '0.5')
    """
    if not error:
        return f"{value:.5g}"
    places = max(0, 1 - int(f"{error:e}".split("e")[1]))
    if places > 6 or abs(value) >= 1e7:
        return f"{value:.4g} ± {error:.2g}"
    return f"{value:,.{places}f} ± {error:,.{places}f}"
