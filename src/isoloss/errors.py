"""Errors that a user can fix: one clear sentence each, shown without a traceback."""

from collections.abc import Iterable
from difflib import get_close_matches


class IsolossError(Exception):
    """Something that the user can fix; its text says what is wrong, where, and what to do.

    >>> raise IsolossError("no such scale: 'huge'; choose smoke, laptop or paper")
    Traceback (most recent call last):
    isoloss.errors.IsolossError: no such scale: 'huge'; choose smoke, laptop or paper
    """


class BadInput(IsolossError, ValueError):
    """A file, a sentence or a setting that cannot be used."""


class Damaged(BadInput):
    """A file that isoloss wrote is not, or not where, it was written; commands name it and exit with 1."""


class FolderHeld(IsolossError):
    """Another process is working in the folder; it may release it."""


class Terminated(KeyboardInterrupt):
    """The process was told to end (SIGTERM): like Ctrl-C, but work elsewhere may continue without it."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question to append to a sentence about an unknown name; empty if no known name is similar.

    >>> did_you_mean("flatnes", ["flatness", "compare"])
    "; did you mean 'flatness'?"
    >>> did_you_mean("zebra", ["flatness", "compare"])
    ''
    """
    near = get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
