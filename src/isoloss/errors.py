"""Errors that a user can fix: one clear sentence each, shown without a traceback."""

import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from sysconfig import get_path


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


def did_you_mean(name: str, known: Iterable[str], alike: float = 0.6) -> str:
    """A question to append to a sentence about an unknown name; empty if no known name is similar.

    `alike` is difflib's ratio of characters, from 0 to 1, from which a name counts as similar.

    >>> did_you_mean("flatnes", ["flatness", "compare"])
    "; did you mean 'flatness'?"
    >>> did_you_mean("zebra", ["flatness", "compare"])
    ''
    """
    near = get_close_matches(name, known, n=1, cutoff=alike)
    return f"; did you mean {near[0]!r}?" if near else ""


def first_line(error: BaseException) -> str:
    r"""The first line of an error's message, without its full stop, or its type.

    >>> first_line(ValueError("no head.\nUse another.")), first_line(ValueError())
    ('no head', 'ValueError')
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


_OF_WRONG_KIND = (TypeError, AttributeError)
_OUT_OF_RANGE = (IndexError, ArithmeticError, AssertionError, RecursionError)
"""What a library raises for a value that it did not check, of another kind or of the right one."""


def reason_of(error: BaseException) -> str:
    r"""What a library's exception says first, as a clause, without addresses and representations of classes.

    >>> reason_of(ValueError(f"no head for {ValueError} here.\nUse another."))
    'no head for ValueError here'
    >>> reason_of(TypeError("unhashable type: 'list'"))
    "a value in it is of another kind than it should be (unhashable type: 'list')"
    >>> reason_of(AssertionError("Padding_idx must be within num_embeddings"))
    'a value in it is out of range (Padding_idx must be within num_embeddings)'
    """
    # A module printed whole stands between its name and what is said of it.
    text = re.sub(r"\((?:\n(?: .*|\)))+\n\)", "", str(error).strip())
    first, *others = [line.strip() for line in text.splitlines()] or [""]
    if first.endswith(":") and others:  # a title; what it is about follows
        first = re.sub(r"^\w+Error: ", "", others[-1])
    first = re.sub(r"<(?:class|function|enum) '?(?:[\w.]+\.)?(\w+)'?[^>]*>", r"\1", first)
    first = re.split(r"\.\s+(?=[A-Z])", re.sub(r" at 0x[0-9a-f]+", "", first))[0].rstrip(".")
    if isinstance(error, KeyError):
        return f"there is no {first}"
    if isinstance(error, _OUT_OF_RANGE):
        return f"a value in it is out of range ({first or type(error).__name__})"
    if isinstance(error, _OF_WRONG_KIND) or not first:
        return f"a value in it is of another kind than it should be ({first or type(error).__name__})"
    return first


def is_failure(error: BaseException) -> bool:
    """Whether code failed, rather than being told to stop. A panic in Rust's code is no Exception.

    >>> is_failure(ValueError()), is_failure(KeyboardInterrupt())
    (True, False)
    """
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


@contextmanager
def raised_as(sentence: Callable[[BaseException], IsolossError]) -> Iterator[None]:
    """Raise the error that `sentence` makes of whatever fails within; one for the user is raised as it is.

    >>> with raised_as(lambda error: BadInput(f"{reason_of(error)}; give another")):
    ...     int("ten")
    Traceback (most recent call last):
    isoloss.errors.BadInput: invalid literal for int() with base 10: 'ten'; give another
    """
    try:
        yield
    except IsolossError:
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        raise sentence(error) from error


LIBRARIES = str(Path(__file__).parent), get_path("stdlib")
INSTALLED = {"site-packages", "dist-packages"}
"""The names of folders into which packages are installed, an environment's, the system's or a user's."""


def place_in_users_code(error: BaseException) -> str:
    """The last place in a file of the user's own that the error went through; empty if in none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_file() and not frame.filename.startswith(LIBRARIES) and not INSTALLED & set(file.parts):
            return f"{frame.filename}, line {frame.lineno}, in {frame.name}"
    return ""


def printable(text: str) -> str:
    r"""The text with control characters written out, so that a name cannot steer the terminal.

    So are bytes of names that are not UTF-8, which could not be written at all. Line ends and tabs stay as
    they are, and JSON stays what it was.

    >>> printable("a\x1b[2J\tb"), printable("caf\udce9")
    ('a\\u001b[2J\tb', 'caf\\udce9')
    """
    unprintable = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
    return re.sub(unprintable, lambda found: f"\\u{ord(found[0]):04x}", text)
