"""The one interface through which long work tells how far it is; only the command line draws it."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class Progress(Protocol):
    """Receives how far a named piece of work has come."""

    def __call__(self, task: str, completed: float, total: float, message: str = "") -> None:
        """Report that `completed` of `total` units of `task` are done; `message` is a short status."""
        ...


def silent(task: str, completed: float, total: float, message: str = "") -> None:
    """Report to nobody: the default everywhere below the command line.

    >>> silent("sampling", 3, 10)
    """
