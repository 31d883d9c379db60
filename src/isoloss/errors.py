"""Errors that a user can mend: one clear sentence each, shown without a traceback."""


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
