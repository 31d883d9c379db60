"""Where tables are printed: a terminal, or lines for another program."""

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
