"""Progress of long work: the interface to which computations report and that the command line displays."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

Share = Callable[[float], None]
"""Receives the share of a piece of work that is done, from 0 to 1."""


@runtime_checkable
class Progress(Protocol):
    """Receives the progress of a named piece of work."""

    def __call__(self, task: str, completed: float, total: float, message: str = "") -> None:
        """Report that `completed` of `total` units of `task` are done; `message` is a short status."""
        ...


def silent(task: str, completed: float, total: float, message: str = "") -> None:
    """Ignore reports: the default everywhere below the command line."""


def unheard(share: float) -> None:
    """Ignore the share that is done: the default of a `Share`."""


def part_of(progress: Progress, done: int, parts: int) -> Progress:
    """Reports to `progress` for the part that follows the first `done` of all `parts`.

    >>> part_of(lambda task, completed, total, message="": print(task, completed, total), 1, 4)("fit", 3, 6)
    fit 1.5 4

    A part that consists of nothing is done.

    >>> part_of(lambda task, completed, total, message="": print(task, completed, total), 1, 4)("fit", 0, 0)
    fit 2 4
    """

    def report(task: str, completed: float, total: float, message: str = "") -> None:
        progress(task, done + (completed / total if total else 1), parts, message)

    return report
