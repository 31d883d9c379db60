"""The command line, called in the test's own process."""

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest

from isoloss.cli import main

Capture = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    """What is printed to a terminal, with colours."""

    def isatty(self) -> bool:
        return True


def run(arguments: Sequence[str]) -> int:
    """The exit code of `isoloss` with these arguments."""
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    return int(leaving.value.code or 0)


def answer(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    """The exit code, and what this call alone writes to stdout and stderr."""
    capsys.readouterr()
    code = run([str(each) for each in arguments])
    return code, *capsys.readouterr()


def output_of(answered: tuple[int, str, str]) -> str:
    """What is on stdout of a call that ended well."""
    code, written, error = answered
    assert code == 0, error
    return written


def json_of(answered: tuple[int, str, str]) -> Any:
    """The same, of a call with `--json`."""
    return json.loads(output_of(answered))


def refused(capsys: Capture, *arguments: object) -> str:
    """What the only line of a call says that exits with 2 and writes nothing to stdout."""
    return refusal_in(answer(capsys, *arguments))


def refusal_in(answered: tuple[int, str, str]) -> str:
    """The same, of a call that has been made."""
    code, written, error = answered
    assert (code, written, error.count("\n")) == (2, "", 1), error
    assert error.startswith("isoloss: ")
    return error
