"""The one interface through which long work tells how far it is; only the command line draws it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Receives how far a named piece of work has come."""

    def __call__(self, task: str, completed: float, total: float, message: str = "") -> None:
        """Report that `completed` of `total` units of `task` are done; `message` is a short status."""
        ...


def silent(task: str, completed: float, total: float, message: str = "") -> None:
    """Report to nobody: the default everywhere below the command line.

    >>> silent("sampling", 3, 10)
    """


@contextmanager
def prefixed(progress: Progress, prefix: str) -> Iterator[Progress]:
    """Name every task below `prefix`, so that two runs' tasks are told apart."""

    def report(task: str, completed: float, total: float, message: str = "") -> None:
        progress(f"{prefix} {task}", completed, total, message)

    yield report
