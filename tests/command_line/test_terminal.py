import json
import os
import sys
import time

import pytest
from called import Capture, Terminal
from rich.table import Table

from isoloss.command_line.terminal import (
    PlainLines,
    escaped_output,
    print_failures,
    progress_display,
    table_console,
)
from isoloss.executors.job import Notice


def test_what_is_in_brackets_or_between_colons_is_a_part_of_a_name(capsys: Capture) -> None:
    table = Table("run[a]", title="two [of] them")
    table.add_row(":smile: [/b]")
    table_console().print(table)
    print_failures([Notice("run[a]", "no :smile: [/b]")])
    told = capsys.readouterr()
    assert all(each in told.out for each in ("two [of] them", "run[a]", ":smile: [/b]"))
    assert told.err == "run[a] failed: no :smile: [/b]\n"


def test_json_is_valid_whatever_bytes_a_name_has(capsys: Capture) -> None:
    name = os.fsdecode(b"caf\xe9\x1b\x7f") + "\x85"
    with escaped_output():
        print(json.dumps({"model": name}, ensure_ascii=False))
        print(name)
    written, plain = capsys.readouterr().out.splitlines()
    assert json.loads(written) == {"model": name}
    assert plain == r"caf\udce9\u001b\u007f\u0085"


def test_a_name_cannot_steer_a_terminal_whose_bars_move(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, name = Terminal(), "\x1b]0;title\a\x1b[2J\x1b[8m"
    monkeypatch.setattr(sys, "stderr", terminal)
    with escaped_output():
        with progress_display() as progress:
            progress(name, 1, 2)
            print(f"{name} is read", file=sys.stderr)
            print_failures([Notice("run", "no")])
        moves = terminal.getvalue()
        terminal.truncate(0)
        print(f"{name} is damaged", file=sys.stderr)
        print_failures([Notice(name, "no")])
    assert "\x1b[2K" in moves
    assert "\x1b[1mrun failed: no" in moves
    for told in (moves, terminal.getvalue()):
        assert "\x1b]0" not in told
        assert "\x1b[2J" not in told
        assert "\x1b[8m" not in told
        assert r"\u001b]0;title\u0007\u001b[2J\u001b[8m" in told


def test_a_name_cannot_hide_what_follows_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    with escaped_output():
        table = Table("\x1b[8mbert", title="of \x1b[8m")
        table.add_row("\x1b[30;40mhidden", style="bold")
        table_console().print(table)
    shown = terminal.getvalue()
    assert "\x1b[8m" not in shown
    assert "\x1b[30;40m" not in shown
    assert "\x1b[1m" in shown
    assert r"\u001b[8mbert" in shown


def test_a_line_is_due_every_ten_seconds_and_estimates_from_a_hundredth_on(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    clock = iter([0.0, 9.0, 11.0, 15.0, 22.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    report = PlainLines()
    for completed in (0, 1, 5, 10, 250):
        report("all runs", completed, 1000, "on its way")
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines() == ["all runs: 0%  on its way", "all runs: 25%, 66 s left  on its way"]


def test_a_task_that_was_told_of_has_a_line_at_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    clock = iter([0.0, 11.0, 13.0, 14.0, 15.0, 16.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    report = PlainLines()
    for completed in (0, 900, 1000, 0, 1000):
        report("all runs", completed, 1000)
    report("quick", 1, 1)
    assert capsys.readouterr().err.splitlines() == ["all runs: 90%, 1 s left", "all runs: 100%"]
