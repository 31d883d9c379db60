"""Errors that a user can mend: one clear sentence each, shown without a traceback."""

from collections.abc import Iterable
from difflib import get_close_matches


class IsolossError(Exception):
    """Something the user can mend; its text says what is wrong, where, and what to do.

    >>> raise IsolossError("no such scale: 'huge'; choose smoke, laptop or paper")
    Traceback (most recent call last):
    isoloss.errors.IsolossError: no such scale: 'huge'; choose smoke, laptop or paper
    """


class BadInput(IsolossError, ValueError):
    """A file, a sentence or a setting that cannot be used."""


class Interrupted(IsolossError):
    """Work that stopped early; what was finished is kept and the same command goes on from there."""


class FolderHeld(IsolossError):
    """Another process works in the folder; it may let go."""


class Terminated(KeyboardInterrupt):
    """The process was told to end (SIGTERM): as Ctrl-C, but that work elsewhere may go on without it."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question that ends a sentence about an unknown name; empty where no known name is near.

    >>> did_you_mean("flatnes", ["flatness", "compare"])
    "; did you mean 'flatness'?"
    >>> did_you_mean("zebra", ["flatness", "compare"])
    ''
    """
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
