"""Terminal output: progress on stderr, and lines on stdout, which other programs read."""

import gc
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from rich.console import Console
from rich.file_proxy import FileProxy
from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

from isoloss.errors import printable
from isoloss.progress import Progress

if TYPE_CHECKING:
    from isoloss.executors.job import Notice


PLAIN_INTERVAL_SECONDS = 10.0
PATIENCE_SECONDS = 0.3


@contextmanager
def progress_display() -> Iterator[Progress]:
    """Show reported progress until the block ends; nothing is ever written to stdout."""
    if sys.stderr.isatty():
        with _bars() as progress:
            yield progress
    else:
        yield PlainLines()


@contextmanager
def escaped_output() -> Iterator[None]:
    """Within the block, control characters in what is printed are written out: see `printable`.

    Tables in colours and bars of progress, which move about, go past it, and write names out themselves.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (ChangedText(stream, printable) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class ChangedText:
    """A stream that changes all text written to it, and is otherwise the one it is made of."""

    def __init__(self, stream: Any, change: Callable[[str], str]) -> None:
        self.unchanged, self._change = stream, change

    def write(self, text: str) -> int:
        """Write what the text is changed to; returns the length of what was given."""
        self.unchanged.write(self._change(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of the lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unchanged, name)


def _unchanged(stream: Any) -> Any:
    """The stream below what changes texts and below moving bars, which print above themselves."""
    while isinstance(stream, ChangedText | FileProxy):
        stream = stream.unchanged if isinstance(stream, ChangedText) else stream.rich_proxied_file
    return stream


@contextmanager
def starting(command: str) -> Iterator[None]:
    """For a command's imports: a line on stderr says that it starts, unless they end within a moment."""
    line = f"isoloss {command}: starting"
    timer = threading.Timer(PATIENCE_SECONDS, partial(print, line, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        with heavy_imports():
            yield
    finally:
        timer.cancel()


@contextmanager
def heavy_imports() -> Iterator[None]:
    """For imports that take long, after the line of `starting`.

    Garbage, of which there is none, is not looked for meanwhile, which takes a fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextmanager
def _bars() -> Iterator[Progress]:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[message]}", style="dim", markup=False),
    )
    console = Console(file=_unchanged(sys.stderr), **AS_IT_IS)  # what is shown on it is printable already
    with RichProgress(*columns, console=console, refresh_per_second=4) as bars:
        tasks: dict[str, TaskID] = {}

        def report(task: str, completed: float, total: float, message: str = "") -> None:
            task, message = printable(task), printable(message)
            if task not in tasks:
                tasks[task] = bars.add_task(task, total=total, message=message)
            bars.update(tasks[task], completed=completed, total=total, message=message)
            if completed >= total:  # a finished task gives its line to the next
                bars.remove_task(tasks.pop(task))

        with escaped_output():  # bars print what others write, in the colours that it has
            yield report


class PlainLines:
    """A line per task at most every PLAIN_INTERVAL_SECONDS, with its completed share and remaining time.

    A task that has had a line has one at its end too.
    """

    def __init__(self) -> None:
        self._started: dict[str, float] = {}
        self._shown: dict[str, float] = {}

    def __call__(self, task: str, completed: float, total: float, message: str = "") -> None:
        """Print a line to stderr if this task's next one is due."""
        now = time.monotonic()
        start = self._started.setdefault(task, now)
        ends = completed >= total and self._shown.get(task, start) > start
        if not ends and now - self._shown.setdefault(task, start) < PLAIN_INTERVAL_SECONDS:
            return
        self._shown[task] = now
        if ends:  # what is reported of it after that is another task of this name
            del self._started[task], self._shown[task]
        share = completed / total if total else 1.0
        known = 0.01 <= share < 1  # extrapolated from less, it would be hours
        left = f", {(now - start) * (1 - share) / share:.0f} s left" if known else ""
        print(f"{task}: {share:.0%}{left}  {message}".rstrip(), file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """A time to two digits, in the unit in which it is easily read.

    >>> duration(0.00234), duration(0.5), duration(104.0), duration(7300.0)
    ('2.3 ms', '0.5 s', '1.7 min', '2 h')
    """
    for least, unit in ((3600.0, "h"), (60.0, "min"), (0.1, "s")):
        if seconds >= least:
            return f"{float(format(seconds / (1.0 if unit == 's' else least), '.2g')):,g} {unit}"
    return f"{1000 * seconds:.2g} ms"


LINE = 1000


class _Console(Console):
    """Writes out control characters in texts and cells, beside its own colours.

    Raises BrokenPipeError when its reader closes the pipe, for `cli.main` to handle.
    """

    def render_str(self, text: str, **settings: Any) -> Text:
        """Called by rich for every text that has no style of its own."""
        return super().render_str(printable(text), **settings)

    def on_broken_pipe(self) -> NoReturn:
        """Called by rich, which would exit with 1 as after a failure."""
        raise BrokenPipeError


AS_IT_IS: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
"""Names come from anywhere, and what is in brackets or between colons is a part of them."""


def table_console() -> Console:
    """Standard output; unless it is a terminal, each of a table's rows is one line, however long."""
    width = None if sys.stdout.isatty() else LINE
    return _Console(file=_unchanged(sys.stdout), width=width, **AS_IT_IS)


def print_table(
    titles: Sequence[str], rows: Iterable[Sequence[object]], *, left: Collection[str], **around: Any
) -> None:
    """A table on standard output, with the columns of these titles set to the left and others to the right.

    Cells are as in `as_text`; `around` are settings of rich's table, such as its title and caption.
    """
    from isoloss.results.record import as_text

    table = Table(**around)
    for title in titles:
        table.add_column(title, justify="left" if title in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(as_text, row))
    table_console().print(table)


def error_console() -> Console:
    """Standard error."""
    return _Console(file=_unchanged(sys.stderr), **AS_IT_IS)


def stdout_width() -> int:
    """Characters in a line of the terminal; where standard output is none, of COLUMNS, or 80."""
    return shutil.get_terminal_size().columns


def in_lines(text: str, indent: str = "  ") -> str:
    """The text broken between words at the terminal's width; as it is, unless a terminal shows it."""
    return broken(text, indent) if sys.stdout.isatty() else text


def broken(text: str, indent: str = "") -> str:
    """The text broken between words at `stdout_width`; `indent` begins every line but the first."""
    width = max(40, stdout_width())
    return textwrap.fill(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def print_failures(failures: "Sequence[Notice]") -> None:
    """What failed and why, on stderr."""
    for failure in failures:
        error_console().print(f"{failure.job} failed: {failure.text}", style="bold")
