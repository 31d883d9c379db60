"""Docstrings as they are written, in plain text with `code`, formulae and doctests, for Sphinx to read.

To Sphinx a plain `||x||` or `E_x` is markup. Here all of it is escaped, but for code in backticks, which
becomes a link where it names something; indented lines, which are kept as they stand; and lists, of arguments
and of lines that begin with a dash.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


_CODE = re.compile(r"`([^`]+)`")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_LOOKS_LIKE_A_LIST = re.compile(r"^(?=([-+•]|\S{1,5}[.)])\s)")
_ARGUMENT = re.compile(r" {4}(\w+): (.*)")


def restructured(docstring: list[str]) -> list[str]:
    """The docstring's lines as reStructuredText that shows what a reader of the source sees.

    >>> restructured(["`Batch`, `n + 1` times."])
    [':py:obj:`Batch`, ``n + 1`` times.', '']
    """
    lines: list[str] = []
    for filled, group in groupby(docstring, key=lambda line: bool(line.strip())):
        if filled:
            lines += [*_paragraph(list(group)), ""]
    return lines


def _paragraph(lines: list[str]) -> Iterator[str]:
    if lines[0].startswith(">>>"):
        yield from lines
    elif lines[0] == "Args:":
        for line in lines[1:]:
            argument = _ARGUMENT.fullmatch(line)
            yield f":param {argument[1]}: {_text(argument[2])}" if argument else f"    {_text(line.strip())}"
    elif lines[0].startswith("- "):
        yield from _text("\n".join(lines)).splitlines()
    else:
        for indented, group in groupby(lines, key=lambda line: line.startswith("    ")):
            if indented:
                yield from ("", "::", "", *group, "")
            else:
                yield from _LOOKS_LIKE_A_LIST.sub(r"\\", _text("\n".join(group)), count=1).splitlines()


def _text(text: str) -> str:
    """Code in backticks as code, anything else as it stands."""
    parts = _CODE.split(text)
    parts[::2] = [re.sub(r"([\\*|_`])", r"\\\1", part) for part in parts[::2]]
    for place in range(1, len(parts), 2):
        parts[place] = _code(" ".join(parts[place].split()))
        if parts[place + 1][:1].isalnum():
            parts[place] += "\\ "
    return "".join(parts)


def _code(code: str) -> str:
    return f":py:obj:`{code}`" if _NAME.fullmatch(code) else f"``{code}``"


def _replace(_app: "Sphinx", _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = restructured(lines)


def _readable(
    _app: "Sphinx", _what: str, _name: str, _object: Any, _options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """A default that is made anew for each object is written so that Sphinx can read the signature."""
    return (signature.replace("<factory>", "..."), returns) if "<factory>" in (signature or "") else None


def setup(app: "Sphinx") -> dict[str, Any]:
    """Have every docstring read this way, and every signature."""
    app.connect("autodoc-process-docstring", _replace)
    app.connect("autodoc-process-signature", _readable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
