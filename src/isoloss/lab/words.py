"""What a notebook gives and sees: whole numbers, sentences that print as words, progress on one line, and
errors in one sentence: what failed, the reason, and what to do.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from os import PathLike
from pathlib import Path
from typing import SupportsFloat, SupportsIndex

import torch

from isoloss.errors import BadInput, IsolossError, first_line, place_in_users_code
from isoloss.languages.language import SentenceSource

SECONDS_BETWEEN_LINES = 0.5


class Words(tuple[str, ...]):
    """Sentences as strings of words separated by blanks; one a line where they are printed."""

    def __repr__(self) -> str:
        return "\n".join(self)


def sentences(language: SentenceSource, n: SupportsIndex, *, seed: SupportsIndex) -> Words:
    """Draw n sentences of a language. Raises BadInput unless n is at least 1.

    >>> from isoloss.languages.notation import parse_grammar
    >>> from isoloss.languages.pcfg import pcfg
    >>> sentences(pcfg(parse_grammar("S -> 'the' 'cat' [0.5] | 'a' 'dog' [0.5]")), 2, seed=0)
    the cat
    the cat
    """
    if not isinstance(language, SentenceSource):
        raise BadInput(f"{language!r:.60} is no language; give one, such as isoloss.read_pcfg(file)")
    if (number := whole_number("the number of sentences", n)) < 1:
        raise BadInput(f"the number of sentences must be at least 1, not {number}")
    drawn = language.sample(number, torch.Generator().manual_seed(usable_seed(seed)))
    return Words(
        tuple(" ".join(language.vocabulary[word] for word in row if word >= 0) for row in drawn.ids.tolist())
    )


class OneLine:
    """Progress on one line of standard error, rewritten at most twice a second; wiped out at the end."""

    def __init__(self) -> None:
        self._shown = 0.0

    def __call__(self, task: str, completed: float, total: float, message: str = "") -> None:
        now = time.monotonic()
        if completed < total and now - self._shown < SECONDS_BETWEEN_LINES:
            return
        self._shown = now
        line = "" if completed >= total else f"{task}: {completed / total:.0%}  {message}"[:100]
        sys.stderr.write(f"\r{line:<100}" + "\r" * (not line))
        sys.stderr.flush()


def whole_number(what: str, given: SupportsIndex) -> int:
    """What is given as `what`, as Python's. Raises BadInput for what is no whole number, such as True or 3.0.

    >>> import numpy
    >>> whole_number("the number of steps", numpy.int64(3))
    3
    """
    number = _whole(given)
    if number is None:
        raise BadInput(f"{what} is a whole number, not {given!r}")
    return number


def number_from(what: str, given: SupportsFloat) -> float:
    """What is given as `what`, as Python's. Raises BadInput for what is no number, such as "0.2".

    >>> import numpy
    >>> number_from("the rate", numpy.float32(0.5))
    0.5
    """
    if isinstance(given, bool) or not isinstance(given, SupportsFloat):
        raise BadInput(f"{what} is a number, not {given!r:.60}")
    return float(given)


def folder_from(given: Path | str) -> Path:
    """A folder's path. Raises BadInput for what names none."""
    if not isinstance(given, str | PathLike) or not str(given):
        raise BadInput(f"a folder is named by its path, such as 'runs/first', not {given!r:.60}")
    return Path(given)


def usable_seed(seed: SupportsIndex) -> int:
    """The seed as Python's number. Raises BadInput unless it is one that torch takes."""
    number = _whole(seed)
    if number is None or not 0 <= number < 2**32:  # of more bits, torch's generator of a CPU ignores some
        raise BadInput(f"a seed is a whole number from 0 to {2**32 - 1}, not {seed!r}")
    return number


def _whole(given: SupportsIndex) -> int | None:
    try:
        return None if isinstance(given, bool) else index(given)
    except TypeError:
        return None


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
        memory = isinstance(error, torch.OutOfMemoryError) or "memory" in reason
        if not memory and (place := place_in_users_code(error)):
            raise BadInput(f"{doing} failed in {place}: {type(error).__name__}: {reason}; mend it") from error
        advice = "a model that reads such sentences"
        if memory:
            advice = "fewer sentences or a smaller batch, or a smaller model"
        raise BadInput(f"{doing} failed: {reason}; give {advice}") from None
