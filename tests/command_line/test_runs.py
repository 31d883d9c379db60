"""`isoloss runs` and `show`, on folders written by hand."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from called import Capture, answer, json_of, output_of, refused, run

from hand_made_runs import LOSS, write_measurement, write_names, write_run
from isoloss.results.measurement_store import measurements_at
from isoloss.results.record import Record
from isoloss.results.store import sealed, write_sealed
from isoloss.stored_runs.run_filter import run_facts
from isoloss.stored_runs.stored_run import runs_in


def test_damaged_names_are_told_with_what_they_cost(results: Path, capsys: Capture) -> None:
    names = results / "experiments" / "figure-1.json"
    names.write_text(names.read_text().replace("runs", "runs")[:-3])
    sentence = (
        f"{names} is damaged: runs are shown without the names that figure-1 gave them; to reproduce that"
    )
    for asked in (["runs", str(results)], ["show", "aaaa1111", "--results", str(results)]):
        assert run(asked) == 1
        out, err = capsys.readouterr()
        assert (err.count("\n"), err.startswith(sentence)) == (1, True)
        assert "width-32-" not in out
    assert run(["show", "figure-1 width-32", "--results", str(results)]) == 2
    assert sentence in capsys.readouterr().err


def test_runs_are_a_line_each(results: Path, capsys: Capture) -> None:
    asked = ("runs", results, "--where", "width>=32", "--sort", "loss", "--wide")
    titles, *rows, last = output_of(answer(capsys, *asked)).splitlines()
    assert titles.split() == ["name", "run", "seed", "steps", "loss", "trace", "architecture"]
    assert ["aabb2222" in rows[0], "aaaa1111" in rows[1], len(rows)] == [True, True, 2]
    assert last == "2 of 3 runs, AdamW, MaskedObjective, complete"  # no columns, since all share them
    assert "figure-1 width-32" in rows[1]
    assert "1.20 ± 0.12" in rows[1]
    assert "5.50 ± 0.50" in rows[1]
    assert "width 64" in rows[0]


def test_runs_are_listed_by_experiment_and_name(tmp_path: Path, capsys: Capture) -> None:
    for folder in ("aaaa1111", "bbbb2222", "cccc3333"):
        write_run(tmp_path, folder)
    write_names(tmp_path, "figure-1", {"aaaa1111": "width-10", "bbbb2222": "width-9"})
    titles, *lines, _ = output_of(answer(capsys, "runs", tmp_path)).splitlines()
    assert titles.split()[0] == "name"
    named = ["figure-1", "width-9", "width-10", "of", "cccc3333"]
    assert [line.split()[0] for line in lines] == named


def test_a_number_of_an_earlier_step_than_the_last_is_shown_with_it(tmp_path: Path, capsys: Capture) -> None:
    write_run(tmp_path, "aaaa1111", loss=LOSS, trace={10: [5.0, 6.0]})
    write_run(tmp_path, "bbbb2222", loss=LOSS, trace={10: [6.0, 7.0], 40: [3.0, 4.0]})
    _, first, second, _ = output_of(answer(capsys, "runs", tmp_path)).splitlines()
    assert "1.20 ± 0.12  5.50 ± 0.50 at 10" in first
    assert " at " not in second


@pytest.mark.parametrize(
    ("copies", "shown"),
    [(("a", "b"), ("a", "b")), ((".", "x/b"), (".", "x/b")), (("x/a/1", "x/b/1"), ("a", "b"))],
)
def test_copies_of_a_run_are_shown_with_their_folders(
    copies: tuple[str, str], shown: tuple[str, str], tmp_path: Path, capsys: Capture
) -> None:
    for place in copies:
        write_run(tmp_path / place, "aaaa1111", loss=LOSS)
        write_names(tmp_path / place, "figure-1", {"aaaa1111": "width-32"})
    write_run(tmp_path / "z", "bbbb2222")
    titles, *lines, _ = output_of(answer(capsys, "runs", tmp_path, "--wide")).splitlines()
    place = titles.index("folder")
    rows = [line for line in lines if "aaaa1111" in line]
    assert tuple(row[place:].split()[0] for row in rows) == shown
    (other,) = (line for line in lines if "bbbb2222" in line)
    assert other[place : place + len("folder")].strip() == ""
    narrow = output_of(answer(capsys, "runs", tmp_path)).splitlines()
    assert "folder" in narrow[0]
    assert "folder" not in output_of(answer(capsys, "runs", tmp_path / copies[1]))


@pytest.mark.parametrize("width", [60, pytest.param(80, marks=pytest.mark.thorough), 120, 240])
def test_lines_of_runs_fit_the_terminal(
    width: int, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no room is named, and `--wide` leaves nothing out; a pipe has a terminal's 80 columns."""
    write_run(tmp_path, "aaaa1111", width=32, loss=LOSS, trace={40: [5.0, 6.0]})
    write_run(tmp_path, "bbbb2222", width=64, rule="SGD", loss=LOSS, trace={40: [5000.0, 6000.0]})
    write_names(tmp_path, "figure-1", {"aaaa1111": "width-32-of-a-very-long-name-that-has-no-end-seed-621"})
    write_names(tmp_path, "figure-2", {"bbbb2222": "width-64-seed-621"})
    asked = ["runs", str(tmp_path)]
    monkeypatch.setenv("COLUMNS", str(width))
    lines = output_of(answer(capsys, *asked)).splitlines()
    assert max(map(len, lines)) <= width
    assert [line for line in lines if not line.startswith(" ")][:2] == ["figure-1", "figure-2"]
    assert {"loss", "trace"} <= set(lines[0].split())
    assert lines[1].strip() != lines[3].strip()
    assert any(line.startswith("not shown: ") for line in lines) == (width < 200)
    monkeypatch.delenv("COLUMNS")
    if width == 80:
        piped = subprocess.run([sys.executable, "-m", "isoloss", *asked], capture_output=True, text=True)
        assert piped.stdout.splitlines() == lines
    wide = output_of(answer(capsys, *asked, "--wide"))
    assert "no-end" in wide
    assert "SGD" in wide


def test_of_one_quantity_the_plainest_number_is_shown(tmp_path: Path, capsys: Capture) -> None:
    """Its own trace, not the enlarged model's; its probe's accuracy, not the untrained or another one's."""
    folder = write_run(tmp_path, "aaaa1111", trace={40: [5.0, 6.0]})
    accuracy = "linear_probe_accuracy"
    written = [("a1", {"policy": "untrained"}), ("b2", {"of": {}}), ("c3", {"policy": "mask"})]
    for place, (on, _) in enumerate(written):
        write_measurement(folder, 40, accuracy, on, np.array([place, place + 0.5]), False, task="SST-2")
    settings = {"step": 40, "measured_on": "zz-enlarged", "enlarged_to": 48, "form": "exact"}
    enlarged = Record("fisher_trace", 80.0, "nats", 10.0, 2, settings=settings)
    measurements_at(folder, folder.name, 40).write("zz-enlarged", [enlarged])
    planned = [{"measured_on": on, "quantity": {"is": "Probe", **own}, "steps": [40]} for on, own in written]
    plan = {"name": "run", "measured": [planned[1], planned[0], planned[2]]}
    write_sealed(folder / "plan.json", plan, "plan.json")
    shown = output_of(answer(capsys, "runs", tmp_path))
    assert "5.50 ± 0.50" in shown
    assert "80" not in shown
    assert "0.25 ± 0.25" in shown
    (found,) = runs_in(tmp_path)
    facts = run_facts(found)
    assert (facts["trace"], facts["accuracy"]) == ([5.5], [0.25])  # so that --where agrees with the list
    assert facts["fisher_trace"] == [5.5, 80.0]


def test_runs_as_json(results: Path, capsys: Capture) -> None:
    (found,) = json_of(answer(capsys, "runs", results, "--json", "--where", "state=unfinished"))["runs"]
    assert found["run"] == "cccc3333"
    assert (found["step"], found["steps"]) == (10, 40)
    assert found["specification"]["seed"] == 1


def test_a_condition_that_no_run_meets_gives_an_empty_table(results: Path, capsys: Capture) -> None:
    assert "0 of 3 runs" in output_of(
        answer(capsys, "runs", results, "--where", "width>999", "--sort", "loss")
    )


def test_show_tells_everything(results: Path, capsys: Capture) -> None:
    shown = output_of(answer(capsys, "show", "aaaa", "--results", results))
    for expected in (
        "planned as figure-1 width-32",
        "  architecture.shape.width: 32",
        "  torch: 2.13.0",
        "step 40, training loss 2.5 nats, lambda 0.25",
        "masked loss sentence averaged",
        "1.20 ± 0.12",
    ):
        assert expected in shown
    found = json_of(answer(capsys, "show", "aaaa", "--results", results, "--json"))
    assert [checkpoint["step"] for checkpoint in found["checkpoints"]] == [10, 20, 40]
    assert [record["n"] for record in found["checkpoints"][2]["records"]] == [3, 2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "zz"], "no run below"),
        (["show", "aa"], "means 2 runs"),
        (["show", "figure-1 widht-32"], "did you mean 'figure-1 width-32'?"),
        (["compare-runs", "aaaa", "aaaa1"], "are one run"),
        (["compare-runs", "aaaa", "cccc", "--same-loss"], "the runs are of different languages"),
        (["compare-runs", "aaaa", "aabb", "--at-loss", "9"], "not every run falls to a loss of 9"),
        (["compare-runs", "aaaa", "zz"], "no run below"),
    ],
)
def test_mistakes_are_one_sentence(results: Path, arguments: list[str], said: str, capsys: Capture) -> None:
    assert said in refused(capsys, *arguments, "--results", results)


NAME = "specification.json"


def test_show_names_damaged_weights(results: Path, capsys: Capture) -> None:
    weights = results / "runs" / "aaaa1111" / "steps" / "000040" / "model.safetensors"
    weights.write_bytes(b"weighty")
    code, out, err = answer(capsys, "show", "aaaa1111", "--results", results)
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith(f"the checkpoint {weights.parent} is damaged: {weights.name} is not what was ")
    assert "step 40" in out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be read"),
        ('{"steps": 40}', "cannot be read (it is not what was written)"),
        (json.dumps(sealed({"steps": None}, NAME)), "is not what was written"),
        (json.dumps(sealed({}, NAME)), "is not what was written"),
    ],
)
def test_a_damaged_run_is_listed_and_named(content: str, said: str, results: Path, capsys: Capture) -> None:
    (results / "runs" / "aaaa1111" / NAME).write_text(content)
    code, out, _ = answer(capsys, "runs", results)
    assert (code, "damaged" in out) == (1, True)
    for arguments in (("show", "aaaa"), ("compare-runs", "aaaa", "aabb")):
        code, _, told = answer(capsys, *arguments, "--results", results)
        assert (code, f"{NAME} {said}" in told) == (1, True)
        assert "the command that began the run" in told


def test_runs_that_all_lack_a_fact_are_listed(results: Path, capsys: Capture) -> None:
    for specification in (results / "runs").glob(f"*/{NAME}"):
        specification.write_text("{}")
    code, out, _ = answer(capsys, "runs", results)
    assert (code, out.splitlines()[-1]) == (1, "3 of 3 runs, damaged")


@pytest.mark.thorough
def test_listing_waits_for_no_torch(results: Path) -> None:
    asked = "import sys; from isoloss.cli import dispatch; "
    asked += f"dispatch(['runs', {str(results)!r}])"
    asked += "; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
