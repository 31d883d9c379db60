"""`isoloss theory` computes, stores, and reports."""

import json
from pathlib import Path

import pytest
from called import Capture, answer, refused

from isoloss.command_line.verdict_lines import summary_lines
from isoloss.experiments.design import builtin_designs
from isoloss.experiments.experiment_result import keep_names
from isoloss.experiments.scale import scale_named
from isoloss.theory.suite import read_statement, shipped_statements
from jobs_in_turn import reproduce_in_this_process


def test_records_alone_are_on_stdout_and_a_second_call_computes_nothing(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduce_in_this_process(monkeypatch)
    arguments = ("theorem-5.1", "--smoke", "--length", "4", "--samples", "3", "--json")
    code, written, told_beside = answer(capsys, "theory", *arguments, "--output", tmp_path)
    content = json.loads(written)
    assert code == 0
    records = {record["quantity"]: record for record in content["records"]}
    assert records["failure_probability_exact"]["value"] == pytest.approx(2 * (11 / 16) ** 3 - (3 / 8) ** 3)
    assert records["failure_probability_paper"]["value"] == 1 / 8
    simulated = records["failure_probability_simulated"]
    assert simulated["n"] == 500
    assert 0 < simulated["standard_error"] < 0.03
    assert simulated["settings"]["length"] == "4"
    (told,) = content["statements"]
    assert [finding["verdict"] for finding in told["findings"]] == ["supported", "supported", "not supported"]
    assert any("both signs" in correction for correction in told["corrections"])
    assert "not supported" in told_beside
    (path,) = (tmp_path / "theory").glob("*.json")
    assert str(path) == told["file"]
    assert f"results: {path}" in told_beside
    assert "show theorem-5.1 only at the length and samples that it has by itself" in told_beside
    assert "page:" not in told_beside
    assert read_statement(path).name == "theorem-5.1"
    when = path.stat().st_mtime_ns
    assert "as this version of isoloss computed" not in told_beside
    code, again, told_beside = answer(capsys, "theory", *arguments, "--output", tmp_path)
    assert (code, json.loads(again)) == (0, content)
    assert "1 of 1 are as this version of isoloss computed them before" in told_beside
    assert f"delete {path.parent}" in told_beside
    assert path.stat().st_mtime_ns == when


def test_pages_of_another_scale_stay_as_they_are(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduce_in_this_process(monkeypatch)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("of the night")
    keep_names([builtin_designs()["figure-1"].at(scale_named("night"))], tmp_path)
    arguments = ("theory", "theorem-5.1", "--length", 4, "--samples", 3, "--json", "--output", tmp_path)
    code, written, told = answer(capsys, *arguments)
    assert code == 0
    assert "not those of the scale laptop: the pages there stay as they are" in told
    assert "page:" not in told
    assert json.loads(written)["statements"]
    assert (tmp_path / "site" / "index.html").read_text() == "of the night"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("theorem-5.1", "--samples", "0"), "--samples must be at least 1, not 0"),
        (("theorem-5.1", "--length", "400"), "give a length of at most 200"),
        (("theorem-5.1", "--length", "200", "--samples", "501"), "must be at most 100,000"),
        (("--processes", "0"), "--processes must be at least 1"),
    ],
)
def test_mistakes_are_one_sentence_before_any_work(
    arguments: tuple[str, ...], says: str, tmp_path: Path, capsys: Capture
) -> None:
    assert says in refused(capsys, "theory", *arguments, "--output", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("width", [80, 120])
def test_the_last_screen_counts_first_and_fits(width: int) -> None:
    statements = shipped_statements().statements
    lines = list(summary_lines(statements, width))
    assert max(map(len, lines)) <= width
    assert lines[0].startswith(f"{len(statements)} statements, ")
    assert [line.split()[1] for line in lines[1 : len(statements) + 1]] == [each.name for each in statements]
    (theorem,) = [each for each in statements if each.name == "theorem-5.1"]
    alone = list(summary_lines([theorem], width))
    assert max(map(len, alone)) <= width
    assert sum(line.lstrip().startswith("computed ") for line in alone) == len(theorem.findings)
    assert sum(line.lstrip().startswith("Correction: ") for line in alone) == len(theorem.corrections)
