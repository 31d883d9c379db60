"""Where tables are printed: a terminal, or lines for another program."""

import sys

from rich.console import Console

LINE = 1000


def table_console() -> Console:
    """Standard output; where it is no terminal, each of a table's rows is a line, however long."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=LINE)
