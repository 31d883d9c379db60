"""A mistake in a command's options in one sentence, made of the box in which tyro tells it."""

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from itertools import takewhile

from isoloss.errors import BadInput, did_you_mean

WIDE = "1000"
"""Columns, so that tyro breaks no line of a box."""


@contextmanager
def mistakes_in_a_sentence(command: str) -> Iterator[None]:
    """Raise BadInput where tyro would end the process with a box on standard error."""
    box, columns = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = WIDE
    try:
        with redirect_stderr(box):
            yield
    except SystemExit as leaving:
        if not leaving.code or not box.getvalue():
            raise
        said = sentence(box.getvalue())
        more = "" if said.endswith("?") else f"; see `isoloss {command} --help`"
        raise BadInput(f"{said}{more}") from None
    finally:
        del os.environ["COLUMNS"]
        if columns is not None:
            os.environ["COLUMNS"] = columns


def sentence(box: str) -> str:
    """What a box says is wrong.

    >>> sentence("│ invalid choice 'huge' for argument '--scale'. Expected one of ('smoke', 'paper'). │")
    "--scale cannot be 'huge'; choose smoke or paper"
    """
    lines = [re.sub(r"^[│ ] ?|\s*│?$", "", line) for line in box.splitlines()]
    inside = [line for line in lines if line.strip() and line[0] not in "╭╰"]
    if box[:1] in " -":  # without lines of Unicode, the title stands over a rule
        inside = inside[2:]
    first = list(takewhile(lambda line: not _is_rule(line), inside))
    whole = " ".join(" ".join(first).split()).rstrip(".")
    return (
        _wrong_value(whole)
        or _wrong_choice(whole)
        or _lacking(whole, first)
        or _unknown(whole, inside)
        or whole
    )


def _is_rule(line: str) -> bool:
    return set(line.strip()) <= {"─", "-"}


def _wrong_value(whole: str) -> str:
    if not (found := re.search(r"Error parsing (\S+): (.*)", whole)):
        return ""
    given = re.search(r"\[(.*?)\]", found[2]) or re.search(r": (\S+)$", found[2])
    value = given[1] if given else "what was given"
    for kind, what in ((r"\bint\b", "an integer"), (r"\bfloat\b", "a number")):
        if re.search(kind, found[2], re.IGNORECASE):
            return f"{found[1]} takes {what}, not {value}"
    return f"{found[1]} cannot be {value}"


def _wrong_choice(whole: str) -> str:
    found = re.search(r"invalid choice '(.*)' for argument '(.*)'\. Expected one of \((.*?),?\)", whole)
    if found:
        choices = [each for each in re.findall(r"'([^']*)'", found[3]) if each != "None"]
        option = found[2] if found[2].startswith("-") else found[2].upper()
        near = did_you_mean(found[1], choices) or f"; choose {_one_of(choices)}"
        return f"{option} cannot be '{found[1]}'{near}"
    subcommands = re.search(r"Expected one of \{(.*)\}", whole)
    return f"say which: {_one_of(subcommands[1].split(', '))}" if subcommands else ""


def _lacking(whole: str, first: list[str]) -> str:
    if found := re.search(r"Missing value for argument '(.*?)'", whole):
        return f"there is no value after {found[1]}; give one"
    if not whole.startswith("Missing from"):
        return ""
    lacking = [line.strip() for line in first if re.match(r" {4}\S", line)]
    return f"{' and '.join(lacking)} must be given"


def _unknown(whole: str, inside: list[str]) -> str:
    if not (found := re.match(r"Unrecognized (?:or misplaced )?options: ([^\s,]+)", whole)):
        return ""
    listed = (line.partition("Available subcommands: ")[2] for line in inside)
    subcommands = next((line.split(", ") for line in listed if line), [])
    if not subcommands:
        return f"'{found[1]}' is one word too many; leave it out"
    near = did_you_mean(found[1], subcommands) or f"; choose {_one_of(subcommands)}"
    return f"there is no '{found[1]}'{near}"


def _one_of(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
