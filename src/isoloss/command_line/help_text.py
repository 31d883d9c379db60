"""The prose of `--help`: paragraphs as wide as the terminal, and no line that a terminal has to break."""

import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

ASKING = ("-h", "--help")


def asks_for_help(words: Sequence[str]) -> bool:
    """Whether the words after a command's name ask for its help."""
    return bool(set(ASKING) & set(words))


@contextmanager
def readable_help(options: type[Any]) -> Iterator[None]:
    """Within the block, help is printed as wide as the terminal, and no wider."""
    for each in dataclasses_within(options):
        _join_lines(each)
    before = sys.stdout
    sys.stdout = _Folded(before)
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


_COLOUR = "\x1b\\[[0-9;]*m"


class _Folded:
    """A stream of text in which lines are folded between words; it is otherwise the one it is made of."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        width = shutil.get_terminal_size().columns
        self._stream.write("\n".join(_folded(line, width) for line in text.split("\n")))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _folded(line: str, width: int) -> str:
    return line if len(re.sub(_COLOUR, "", line)) <= width else textwrap.fill(line, width)
