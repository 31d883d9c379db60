"""A command's options from the words after its name, by tyro: its help, and mistakes in one sentence."""

import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import fields, is_dataclass
from itertools import takewhile, zip_longest
from types import MappingProxyType
from typing import Any, get_args, get_origin, get_type_hints

import tyro

from isoloss.command_line.terminal import ChangedText
from isoloss.errors import BadInput, did_you_mean

SETTINGS = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
COLOUR = "(\x1b\\[[0-9;]*m)"
POSITIONAL = get_args(tyro.conf.Positional[int])[1:]
ASKING = ("-h", "--help")
COMPLETION = "--tyro-"
"""The prefixes of tyro's options, which write completions for shells."""

WIDE = "1000"
"""Columns, so that tyro breaks no line of a box."""


def parsed(name: str, words: Sequence[str], options: type[Any]) -> Any:
    """The options of the command of that name, an instance of the dataclass `options`.

    Prints help and ends the process if asked for it. Raises BadInput for what an option cannot be.
    """
    _refuse_unknown_options(name, words, options)
    telling = readable_help(options) if set(ASKING) & set(words) else mistakes_in_a_sentence(name)
    with telling:
        return tyro.cli(options, args=words, prog=f"isoloss {name}", config=SETTINGS)


def _refuse_unknown_options(name: str, words: Sequence[str], options: type[Any]) -> None:
    """Raise BadInput for an option that the command does not have, with the nearest that it has."""
    known, positional, several = _option_names(options)
    for word, following in zip_longest(words, words[1:], fillvalue="--"):
        option = word.split("=")[0].replace("_", "-")
        if word.replace("_", "-") in several and following.startswith("--"):
            raise BadInput(f"there is no value after {option}; give one; see `isoloss {name} --help`")
        if not word.startswith("--") or option in (*known, "--help") or option.startswith(COMPLETION):
            continue
        if option.removeprefix("--") in positional:
            value = option.removeprefix("--").upper()
            raise BadInput(f"isoloss {name} has no option {word}; give {value} by itself, without a name")
        near = did_you_mean(option, known) or f"; `isoloss {name} --help` lists them"
        raise BadInput(f"isoloss {name} has no option {word}{near}")


def _option_names(options: Any) -> tuple[set[str], set[str], set[str]]:
    """The options of a dataclass and of those within it, and the names of what is given by itself.

    The last are the options that take several values, which tyro lets be none.
    """
    known: set[str] = set()
    positional: set[str] = set()
    several: set[str] = set()
    for each in dataclasses_within(options):
        hints = get_type_hints(each)
        for field, hint in get_type_hints(each, include_extras=True).items():
            marks = getattr(hint, "__metadata__", ())
            other = next((name for mark in marks if isinstance(name := getattr(mark, "name", 0), str)), "")
            spelt = (other or field).replace("_", "-")
            if any(mark in POSITIONAL for mark in marks):
                positional.add(spelt)
            else:
                known |= {f"--{spelt}", f"--no-{spelt}"}
                several |= {f"--{spelt}"} if get_origin(hints[field]) is tuple else set()
    return known, positional, several


@contextmanager
def readable_help(options: type[Any]) -> Iterator[None]:
    """Within the block, help is printed as wide as the terminal, and no wider."""
    for each in dataclasses_within(options):
        _join_lines(each)
    before = sys.stdout
    sys.stdout = ChangedText(before, _folded)
    try:
        yield
    finally:
        sys.stdout = before


def dataclasses_within(options: Any) -> list[type[Any]]:
    """A dataclass of options and those within it, such as the kinds of language of `isoloss language`."""
    found: list[type[Any]] = []
    waiting = [options]
    while waiting:
        each = waiting.pop()
        waiting += [part for part in get_args(each) if not isinstance(part, str)]
        if isinstance(each, type) and is_dataclass(each):
            found.append(each)
            waiting += get_type_hints(each, include_extras=True).values()
    return found


def _join_lines(options: type[Any]) -> None:
    """Give tyro the fields' docstrings by paragraphs, since it breaks them where their source is broken."""
    from docstring_parser import parse_from_object

    described = {part.arg_name: part.description or "" for part in parse_from_object(options).params}
    for field in fields(options):
        if text := described.get(field.name, ""):
            paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
            field.metadata = MappingProxyType({**field.metadata, "help": "\n\n".join(paragraphs)})


def _folded(text: str) -> str:
    """The text with every line that is wider than the terminal folded between words."""
    width = shutil.get_terminal_size().columns
    return "\n".join(_folded_line(line, width) for line in text.split("\n"))


def _folded_line(line: str, width: int) -> str:
    """The line folded between words, with its codes of colours, which take no room."""
    plain = re.sub(COLOUR, "", line)  # textwrap would take the codes for letters
    if len(plain) <= width:
        return line
    folded, place, painted = textwrap.fill(plain, width, break_on_hyphens=False), 0, []
    for part in (found[0] for found in re.finditer(f"{COLOUR}|.", line)):
        if re.fullmatch(COLOUR, part):
            painted.append(part)
            continue
        if broken := folded.startswith("\n", place):
            painted.append("\n")
            place += 1
        if folded.startswith(part, place) and not (broken and part == " "):
            painted.append(part)
            place += 1
    return "".join(painted)


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
        mistake = sentence(re.sub(COLOUR, "", box.getvalue()))  # on a terminal, the box is coloured
        more = "" if mistake.endswith("?") else f"; see `isoloss {command} --help`"
        raise BadInput(f"{mistake}{more}") from None
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
    first = list(takewhile(lambda line: not set(line.strip()) <= {"─", "-"}, inside))  # up to a rule
    whole = " ".join(" ".join(first).split()).rstrip(".")
    return (
        _wrong_value(whole)
        or _wrong_choice(whole)
        or _lacking(whole, first)
        or _unknown(whole, inside)
        or whole
    )


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
