"""A reader who executes everything on a page, block after block, in one folder."""

import re
import shlex
import tomllib
from collections.abc import Mapping
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from typing import Any

import pytest

from isoloss.cli import main
from page_blocks import MAKE_TARGETS, ROOT, Block, commands

SMALLER = {
    "grammar": ["--words", "20", "--words-per-preterminal", "5", "--roots", "2"],
    "teacher": ["--words", "50", "--length", "4", "--steps", "10"],
    "causal-lm": ["--words", "10", "--length", "4"],
    "describe": ["--sentences", "20"],
    "sensitivity": ["--round", "3", "5"],
    "--quantity": ["--sentences", "32"],
    "theory": ["--smoke"],
}
"""Options, by a word of a command, that make it end within a second."""

NOT_RUN = ("bibtex", "json", "text")
"""Blocks that are read and not executed: text, and the output of the block before them."""


class Reader:
    """Follows one page in the current folder; `names` are Python's, `printed` is the output of each block.

    `done` are commands whose results are already in the folder, with their output.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str], done: Mapping[str, str]) -> None:
        self.capsys, self.done = capsys, done
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed: list[str] = []

    def follow(self, blocks: list[Block]) -> None:
        """Execute the blocks in order, and compare their output with the block of text after them."""
        for number, block in enumerate(blocks):
            if block.file:
                Path(block.file).write_text(block.text)
            elif block.language == "python":
                self.printed.append(self._program(block))
            elif block.language == "sh":
                self.printed.append("".join(self._command(line, block) for line in commands(block)))
            elif block.language == "text" and number and blocks[number - 1].language in ("python", "sh"):
                self._compare(block)
            else:
                assert block.language in NOT_RUN or block.language.startswith("{"), (
                    f"{block.place}: nobody knows how to try a block of {block.language or 'no language'}"
                )

    def _program(self, block: Block) -> str:
        # Preceded by empty lines, so that tracebacks show the page's own line numbers.
        exec(compile("\n" * (block.line - 1) + block.text, str(block.page), "exec"), self.names)
        return self.capsys.readouterr().out

    def _command(self, line: str, block: Block) -> str:
        words = shlex.split(line, comments=True)
        match words:
            case []:
                return ""
            case _ if shlex.join(words) in self.done:
                return self.done[shlex.join(words)]
            case ["isoloss", *arguments]:
                smaller = [option for word in arguments for option in SMALLER.get(word, [])]
                return self._isoloss([*arguments, *smaller], block)
            case ["make", *words]:
                targets = [word for word in words if "=" not in word]
                assert set(targets) <= MAKE_TARGETS, f"{block.place}: no target of the Makefile: {line}"
                return ""
            case ["pip", "install", *words]:
                named = {extra for word in words for extra in re.findall(r"\[([\w,]+)\]", word)}
                asked = {extra for group in named for extra in group.split(",")}
                assert asked <= extras(), f"{block.place}: pyproject.toml has no such extra: {line}"
                return ""
        raise AssertionError(f"{block.place}: nobody knows how to try {line!r}")

    def _isoloss(self, arguments: list[str], block: Block) -> str:
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        shown = self.capsys.readouterr()
        assert leaving.value.code == 0, f"{block.place}: isoloss {shlex.join(arguments)}: {shown.err}"
        assert shown.out or shown.err, f"{block.place}: isoloss {shlex.join(arguments)} prints nothing"
        return shown.out

    def _compare(self, block: Block) -> None:
        told = self.printed[-1]
        same = OutputChecker().check_output(block.text, told, ELLIPSIS | NORMALIZE_WHITESPACE)
        assert same, f"{block.place}: the page says\n{block.text}\nand what is printed is\n{told}"


def extras() -> set[str]:
    """The extras of `pip install 'isoloss[...]'`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return set(project["optional-dependencies"])
