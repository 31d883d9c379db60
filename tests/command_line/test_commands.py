import inspect
import re
import sys
import typing
from pathlib import Path

import pytest
from called import Capture, answer, output_of, refused, run

from isoloss.cli import COMMANDS, FORMER_NAMES, Command, main
from isoloss.command_line import corpus, reproduce
from isoloss.command_line.terminal import table_console
from isoloss.corpora.documents import TextUnit
from isoloss.errors import BadInput
from isoloss.experiments.shared.language_runs import ScaleName
from isoloss.pretraining.specification import Precision


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_the_work_takes_the_options_and_the_help_has_an_example(command: Command) -> None:
    (parameter,) = inspect.signature(command.work).parameters.values()
    assert typing.get_type_hints(command.work)[parameter.name] is command.options
    assert f"Example: isoloss {command.name} " in inspect.getdoc(command.options)
    assert command.summary.endswith((".", "?"))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_what_an_option_takes_and_no_default_that_is_none(name: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main([name, "--help"])
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert told.startswith(f"usage: isoloss {name} ")
    assert not re.search(r"None|\(default: ?\)|\[\[", told)


@pytest.mark.parametrize(
    ("stated", "known"),
    [(reproduce.ScaleName, ScaleName), (reproduce.Precision, Precision), (corpus.TextUnit, TextUnit)],
)
def test_the_choices_that_options_state_are_those_of_the_library(stated: object, known: object) -> None:
    assert set(typing.get_args(stated)) == set(typing.get_args(known))


@pytest.mark.parametrize(
    ("typed", "meant"), [("flatnes", "flatness"), ("compare-run", "compare-runs"), ("hmm", "--help")]
)
def test_a_mistyped_command_is_told_the_nearest(typed: str, meant: str, capsys: Capture) -> None:
    told = refused(capsys, typed, "x")
    assert f"there is no command {typed!r}" in told
    assert meant in told


@pytest.mark.parametrize(("former", "name"), FORMER_NAMES.items())
def test_former_names_go_on_working(former: str, name: str, capsys: Capture) -> None:
    assert f"usage: isoloss {name} " in output_of(answer(capsys, former, "--help"))


def test_a_shell_is_given_completions_of_every_command(capsys: Capture) -> None:
    script = output_of(answer(capsys, "--tyro-print-completion", "bash"))
    assert all(f"'{name}': " in script for name in COMMANDS)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "the system refused (Connection refused)"),
        (TimeoutError("timed out"), "the system refused (timed out)"),
        (PermissionError(13, "Permission denied", "a/b"), "cannot use a/b: Permission denied"),
    ],
)
def test_what_the_system_refuses_is_told_as_what_it_is(
    error: OSError, sentence: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(arguments: object) -> int:
        raise error

    monkeypatch.setattr("isoloss.cli.dispatch", refused)
    assert run(["runs"]) == 2
    assert sentence in capsys.readouterr().err


def test_an_output_that_cannot_hold_a_letter_is_told_what_can(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("isoloss.cli.dispatch", lambda _: print("été"))
    with (tmp_path / "out.txt").open("w", encoding="ascii") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert run(["runs"]) == 2
    assert "can't encode" in (said := capsys.readouterr().err)
    assert said.endswith("; set PYTHONIOENCODING=utf-8\n")


def test_closed_streams_are_written_to_in_vain(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(arguments: object) -> int:
        table_console().print("a table")
        raise BadInput("a mistake")

    monkeypatch.setattr("isoloss.cli.dispatch", shown)
    monkeypatch.setattr(sys, "stderr", None)
    assert run(["runs"]) == 2
    assert capsys.readouterr().out == "a table\n"  # and not the mistake
    monkeypatch.setattr(sys, "stdout", None)
    assert run(["runs"]) == 2


@pytest.mark.parametrize(
    ("given", "goes_on"),
    [("language teacher", True), ("language hmm", False), ("corpus --help", True), ("tas", False)],
)
def test_interrupted_a_command_that_keeps_what_it_has_says_so(
    given: str, goes_on: bool, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("isoloss.cli.dispatch", interrupted)
    assert run(given.split()) == 130
    assert ("goes on from there" in capsys.readouterr().err) == goes_on
