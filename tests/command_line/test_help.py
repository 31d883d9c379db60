"""Help is as wide as the terminal, never wider, and its paragraphs are filled."""

import re
from itertools import pairwise

import pytest
from called import Capture, Terminal

from isoloss.cli import COMMANDS, main

WIDTHS = [
    pytest.param("80", 80, id="80"),
    pytest.param("120", 120, id="120", marks=pytest.mark.thorough),
    pytest.param(None, 80, id="piped", marks=pytest.mark.thorough),
]
ASKED = [[], *([name] for name in COMMANDS), ["language", "dyck"], ["theory", "lemma-3.2"]]


def helped(asked: list[str], capsys: Capture) -> list[str]:
    with pytest.raises(SystemExit) as leaving:
        main([*asked, "--help"])
    assert not leaving.value.code
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("columns", "width"), WIDTHS)
def test_no_line_is_wider_than_the_terminal(
    columns: str | None, width: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    for asked in ASKED:
        assert max(map(len, helped(asked, capsys))) <= width, asked


@pytest.mark.parametrize("width", ["0", "1", "5"])
def test_it_ends_in_the_narrowest_terminal(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert helped(["flatness"], capsys)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["reproduce", "corpus"])
def test_a_line_of_prose_ends_where_the_next_word_would_not_fit(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    begun = re.compile(r"[│|]? {12,}(\S.*?) *[│|]?$")  # the second and later lines of what an option does
    lines = [begun.match(line) for line in helped([name], capsys)]
    followed = [(line, after) for line, after in pairwise(lines) if line and after]
    assert followed
    for line, after in followed:
        assert line.end(1) + 1 + len(after[1].split()[0]) > width - 2, line[0]


def test_the_usage_is_folded_in_colour_as_it_is_without(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout", shown)
    with pytest.raises(SystemExit):
        main(["runs", "--help"])
    painted = shown.getvalue().splitlines()
    assert "\x1b[1mCONDITION\x1b[" in painted[0]
    assert re.match("(\x1b\\[[0-9;]*m)+\\[(\x1b\\[[0-9;]*m)+--wide", painted[1]), painted[1]
    usage, rest, *_ = re.sub("\x1b\\[[0-9;]*m", "", shown.getvalue()).splitlines()
    assert usage == "usage: isoloss runs [-h] [PATH] [--where CONDITION] [--sort KEY] [--descending]"
    assert rest == "[--wide] [--json]"


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("describe", "LANGUAGE must be given"),
        ("flatness m --sentences x", "--sentences takes an integer, not 'x'"),
    ],
)
def test_a_mistake_is_a_sentence_in_a_terminal_too(
    asked: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Terminal()
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setattr("sys.stderr", told)
    with pytest.raises(SystemExit):
        main(asked.split())
    assert told.getvalue() == f"isoloss: {sentence}; see `isoloss {asked.split()[0]} --help`\n"
