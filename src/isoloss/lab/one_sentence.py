"""Errors in the laboratory as one sentence: what failed, the reason, and what to do."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sysconfig import get_path

import torch

from isoloss.errors import BadInput, IsolossError, first_line

LIBRARY = str(Path(__file__).parents[1])
INSTALLED = tuple(get_path(name) for name in ("stdlib", "purelib", "platlib"))
"""Folders of this library, and of Python with what is installed."""


@contextmanager
def in_one_sentence(doing: str) -> Iterator[None]:
    """Turn torch's errors into one sentence, and those of the caller's own files, with the line, too.

    >>> with in_one_sentence("training"):
    ...     torch.ones(2) @ torch.ones(3)
    Traceback (most recent call last):
    isoloss.errors.BadInput: training failed: inconsistent tensor size, ...; give a model that reads such ...
    """
    try:
        yield
    except IsolossError:
        raise
    except (RuntimeError, IndexError, TypeError, ValueError, AttributeError, KeyError) as error:
        reason = first_line(error)
        if place := _own_line(error):
            raise BadInput(f"{doing} failed in {place}: {type(error).__name__}: {reason}; mend it") from error
        memory = isinstance(error, torch.OutOfMemoryError) or "memory" in reason
        advice = "fewer sentences or a smaller batch" if memory else "a model that reads such sentences"
        raise BadInput(f"{doing} failed: {reason}; give {advice}") from None


def _own_line(error: Exception) -> str:
    """Where a file of the caller's own failed; empty if the library did, or what the library called."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    last = next((each for each in frames if not _is_of_others(each.filename)), None)
    if last is None or last.filename.startswith(LIBRARY) or not Path(last.filename).is_file():
        return ""
    return f"{last.filename}, line {last.lineno}"


def _is_of_others(filename: str) -> bool:
    return not filename.startswith(LIBRARY) and filename.startswith(INSTALLED)
