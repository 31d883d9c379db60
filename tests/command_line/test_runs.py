"""`isoloss runs`, `show` and `compare`, on folders written by hand and on two real runs of a second."""

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from called import run

from hand_made_runs import write_measurement, write_names, write_run
from isoloss.executors.job import Job, Outcome
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.planned_run import MeasuredAt, PlannedRun
from isoloss.languages.dyck import dyck
from isoloss.measurements.exact_loss import EvaluationSet, ExactLossQuantity, exact_loss
from isoloss.measurements.on_sentences.fisher_trace import TraceQuantity
from isoloss.models.loading import load_masked_language_model
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.descent import AdamW
from isoloss.progress import Progress, silent
from isoloss.results.estimate import paired_difference
from isoloss.stored_runs.run_filter import run_facts
from isoloss.stored_runs.stored_run import runs_in

LOSS = {10: [2.0, 2.2, 2.4], 40: [1.0, 1.2, 1.4]}
LANGUAGE = dyck(4)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    write_run(tmp_path, "aaaa1111", width=32, loss=LOSS, trace={40: [5.0, 6.0]})
    write_run(tmp_path, "aabb2222", width=64, seed=2, loss={10: [2.1, 2.3, 2.5], 40: [0.5, 0.7, 0.9]})
    write_run(tmp_path, "cccc3333", width=16, steps=(10,), language="other")
    write_names(tmp_path, "figure-1", {"aaaa1111": "width-32"})
    return tmp_path


def test_damaged_names_are_told_with_what_they_cost(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = results / "experiments" / "figure-1.json"
    names.write_text(names.read_text().replace("runs", "runs")[:-3])
    sentence = (
        f"{names} is damaged: runs are shown without the names that figure-1 gave them; `isoloss reproduce"
    )
    for asked in (["runs", str(results)], ["show", "aaaa1111", "--results", str(results)]):
        assert run(asked) == 1
        told = capsys.readouterr()
        assert told.err.count("\n") == 1
        assert told.err.startswith(sentence)
        assert "width-32-" not in told.out
    assert run(["show", "figure-1 width-32", "--results", str(results)]) == 2
    assert sentence in capsys.readouterr().err


def test_runs_are_a_line_each(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", str(results), "--where", "width>=32", "--sort", "loss", "--wide"]) == 0
    titles, *rows, _, last = capsys.readouterr().out.splitlines()
    assert titles.split() == ["name", "run", "seed", "steps", "loss", "trace", "architecture"]
    assert ["aabb2222" in rows[0], "aaaa1111" in rows[1], len(rows)] == [True, True, 2]
    assert last == "2 of 3 runs, AdamW, MaskedObjective, complete"  # no columns, since all share them
    assert "figure-1 width-32" in rows[1]
    assert "1.20 ± 0.12" in rows[1]
    assert "5.50 ± 0.50" in rows[1]
    assert "width 64" in rows[0]


def test_runs_are_listed_by_experiment_and_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("aaaa1111", "bbbb2222", "cccc3333"):
        write_run(tmp_path, folder)
    write_names(tmp_path, "figure-1", {"aaaa1111": "width-10", "bbbb2222": "width-9"})
    assert run(["runs", str(tmp_path)]) == 0
    titles, *lines, _ = capsys.readouterr().out.splitlines()
    assert titles.split()[0] == "name"
    named = ["figure-1", "width-9", "width-10", "of", "cccc3333"]
    assert [line.split()[0] for line in lines] == named


@pytest.mark.parametrize("width", [60, 80, 120, 240])
def test_lines_of_runs_fit_the_terminal(
    width: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no room is named, and `--wide` leaves nothing out; a pipe has a terminal's 80 columns."""
    write_run(tmp_path, "aaaa1111", width=32, loss=LOSS, trace={40: [5.0, 6.0]})
    write_run(tmp_path, "bbbb2222", width=64, rule="SGD", loss=LOSS, trace={40: [5000.0, 6000.0]})
    write_names(tmp_path, "figure-1", {"aaaa1111": "width-32-of-a-very-long-name-that-has-no-end-seed-621"})
    write_names(tmp_path, "figure-2", {"bbbb2222": "width-64-seed-621"})
    asked = ["runs", str(tmp_path)]
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert [line for line in lines if not line.startswith(" ")][:2] == ["figure-1", "figure-2"]
    assert {"loss", "trace"} <= set(lines[0].split())
    assert lines[1].strip() != lines[3].strip()
    assert any(line.startswith("not shown: ") for line in lines) == (width < 200)
    monkeypatch.delenv("COLUMNS")
    if width == 80:
        piped = subprocess.run([sys.executable, "-m", "isoloss", *asked], capture_output=True, text=True)
        assert piped.stdout.splitlines() == lines
    assert run([*asked, "--wide"]) == 0
    wide = capsys.readouterr().out
    assert "no-end" in wide
    assert "SGD" in wide


def test_of_one_quantity_the_plainest_number_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own trace, not the enlarged model's; its probe's accuracy, not the untrained or another one's."""
    folder = write_run(tmp_path, "aaaa1111", trace={40: [5.0, 6.0]})
    accuracy = "linear_probe_accuracy"
    written = [("a1", {"policy": "untrained"}), ("b2", {"of": {}}), ("c3", {"policy": "mask"})]
    for place, (on, _) in enumerate(written):
        write_measurement(folder, 40, accuracy, on, np.array([place, place + 0.5]), False, task="SST-2")
    write_measurement(folder, 40, "fisher_trace", "zz-enlarged", np.array([70.0, 90.0]), False)
    enlarged = folder / "measured" / "000040" / "zz-enlarged.jsonl"
    record = json.loads(enlarged.read_text())
    record["settings"] |= {"enlarged_to": 48, "form": "exact"}
    enlarged.write_text(json.dumps(record) + "\n")
    planned = [{"measured_on": on, "quantity": {"is": "Probe", **own}, "steps": [40]} for on, own in written]
    plan = {"name": "run", "measured": [planned[1], planned[0], planned[2]]}
    (folder / "plan.json").write_text(json.dumps(plan))
    assert run(["runs", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "5.50 ± 0.50" in shown
    assert "80" not in shown
    assert "0.25 ± 0.25" in shown
    (found,) = runs_in(tmp_path)
    assert run_facts(found)["trace"] == [5.5, 80.0]


def test_a_mistyped_run_is_told_the_nearest(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "figure-1 widht-32", "--results", str(results)]) == 2
    assert "did you mean 'figure-1 width-32'?" in capsys.readouterr().err


def test_runs_as_json(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["runs", str(results), "--json", "--where", "state=unfinished"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["runs"]
    assert found["run"] == "cccc3333"
    assert (found["step"], found["steps"]) == (10, 40)
    assert found["specification"]["seed"] == 1


def test_a_condition_that_no_run_meets_gives_an_empty_table(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["runs", str(results), "--where", "width>999", "--sort", "loss"]) == 0
    assert "0 of 3 runs" in capsys.readouterr().out


def test_show_tells_everything(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "aaaa", "--results", str(results)]) == 0
    shown = capsys.readouterr().out
    for expected in (
        "planned as figure-1 width-32",
        "  architecture.shape.width: 32",
        "  torch: 2.13.0",
        "step 40, training loss 2.5 nats, lambda 0.25",
        "masked loss sentence averaged",
        "1.20 ± 0.12",
    ):
        assert expected in shown
    assert run(["show", "aaaa", "--results", str(results), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [checkpoint["step"] for checkpoint in found["checkpoints"]] == [10, 20, 40]
    assert [record["n"] for record in found["checkpoints"][2]["records"]] == [3, 2]


def test_compare_begins_with_a_conclusion(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare-runs", "aaaa", "aabb", "--results", str(results)]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("At step 40, aabb2222 has, compared with aaaa1111: lower loss (-0.5")
    assert first.endswith(" nats).")
    assert len([line for line in lines if "│ loss " in line]) == 1  # at the last step alone
    assert "aabb2222 minus aaaa1111, at step 40" in [line.strip() for line in lines]
    assert "1 more rows, of other quantities and steps, with --all" in lines


@pytest.mark.parametrize("width", [80, 120, None])
@pytest.mark.parametrize("options", [[], ["--all"]])
def test_lines_of_a_comparison_fit_the_terminal(
    options: list[str], width: int | None, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["compare-runs", "aaaa", "aabb", "--results", str(results), *options]
    lines = output_on_terminal(asked, width, monkeypatch)
    assert lines[0].startswith("At step 40, aabb2222 has, compared with aaaa1111: lower loss")
    if width is None:  # piped, a sentence and a row are a line each
        assert lines[0].endswith(").")
    else:
        assert max(map(len, lines)) <= width
        assert not any("…" in line for line in lines)
    assert any("1 more rows" in line for line in lines) == (not options)


def output_on_terminal(asked: list[str], width: int | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the command line prints on a terminal of that width, or into a pipe."""
    said = Terminal() if width is not None else io.StringIO()
    with monkeypatch.context() as at:
        at.setattr(sys, "stdout", said)
        at.setenv("COLUMNS", str(width or 80))
        at.setenv("TERM", "dumb")
        assert run(asked) == 0
    return [line.rstrip() for line in said.getvalue().splitlines()]


class Terminal(io.StringIO):
    """A place for text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_compare_shows_settings_and_paired_differences(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare-runs", "aaaa", "aabb", "--results", str(results), "--all"]) == 0
    shown = capsys.readouterr().out
    assert "architecture.shape.width" in shown
    assert "not paired" not in shown
    assert len([line for line in shown.splitlines() if "masked loss" in line]) == 2
    assert run(["compare-runs", "aaaa", "aabb", "--results", str(results), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["setting"] for each in found["settings"]] == ["architecture.shape.width", "seed"]
    assert [each["difference"]["value"] for each in found["differences"]] == pytest.approx([0.1, -0.5])
    assert [each["difference"]["standard_error"] for each in found["differences"]] == pytest.approx(
        [0.0, 0.0], abs=1e-12
    )


def test_compare_at_one_loss(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare-runs", "aaaa", "aabb", "--results", str(results), "--at-loss", "1.5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["loss"] == 1.5
    assert run(["compare-runs", "aaaa", "aabb", "--results", str(results), "--same-loss"]) == 0
    assert "nothing is measured for both" in capsys.readouterr().out  # except the loss itself


def test_runs_of_different_languages_are_compared_in_their_settings(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare-runs", "aaaa", "cccc", "--results", str(results)]) == 0
    assert "the runs are of different languages" in capsys.readouterr().out


def test_compare_says_when_no_value_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("first", "second"):
        write_run(tmp_path, name, loss=LOSS, kept=False)
    assert run(["compare-runs", "first", "second", "--results", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "no setting differs" in shown
    assert "the two errors are taken as independent" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "zz"], "no run below"),
        (["show", "aa"], "means 2 runs"),
        (["compare-runs", "aaaa", "aaaa1"], "are one run"),
        (["compare-runs", "aaaa", "cccc", "--same-loss"], "the runs are of different languages"),
        (["compare-runs", "aaaa", "aabb", "--at-loss", "9"], "not every run falls to a loss of 9"),
        (["compare-runs", "aaaa", "zz"], "no run below"),
    ],
)
def test_mistakes_are_one_sentence(
    results: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*arguments, "--results", str(results)]) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert len(told) == 1
    assert said in told[0]


def test_a_damaged_run_is_listed_and_named(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (results / "runs" / "aaaa1111" / "specification.json").write_text("{")
    assert run(["runs", str(results)]) == 1
    assert "damaged" in capsys.readouterr().out
    for arguments in (["show", "aaaa"], ["compare-runs", "aaaa", "aabb"]):
        assert run([*arguments, "--results", str(results)]) == 1
        told = capsys.readouterr().err
        assert "specification.json cannot be read" in told
        assert "the command that began the run" in told


def test_listing_waits_for_no_torch(results: Path) -> None:
    asked = "import sys; from isoloss.command_line.commands import dispatch; "
    asked += f"dispatch(['runs', {str(results)!r}])"
    asked += "; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def planned(seed: int) -> PlannedRun:
    quantities = ExactLossQuantity(20, seed=3), TraceQuantity(12, seed=4)
    return PlannedRun(
        name=f"seed-{seed}",
        language=ReadyLanguage(LANGUAGE),
        architecture=PreLayerNormTransformer(laptop_shape(16)),
        update_rule=AdamW(warm_up_steps=1),
        steps=4,
        batch_size=4,
        seed=seed,
        checkpoint_steps=(2, 4),
        saturated_from=4,
        measured=tuple(MeasuredAt(quantity, (2, 4)) for quantity in quantities),
    )


def in_turn(jobs: Sequence[Job], progress: Progress) -> Outcome:
    for job in jobs:
        job.work(silent)
    return Outcome((), ())


def test_real_runs_are_read_as_they_were_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = planned(900), planned(901)
    carry_out_experiments([Experiment("pair", "Pair", (), both, lambda table: ())], tmp_path, in_turn)
    assert run(["runs", str(tmp_path), "--json"]) == 0
    listed = {each["run"]: each for each in json.loads(capsys.readouterr().out)["runs"]}
    assert {each["state_in_words"] for each in listed.values()} == {"complete"}
    assert listed[both[0].digest[:16]]["names"] == {"pair": "seed-900"}

    first, second = ["pair seed-900", "pair seed-901"]
    assert run(["compare-runs", first, second, "--results", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["setting"] for each in found["settings"]] == ["seed"]
    means = [each for each in found["differences"] if "deviation" not in each["quantity"]]
    assert len(means) > 2 * 3
    assert all(each["paired"] for each in means)
    (kl,) = [
        each["difference"]
        for each in means
        if each["quantity"] == "masked_kl_sentence_averaged" and each["steps"] == [4, 4]
    ]
    evaluation = EvaluationSet.draw(LANGUAGE, 20, 3)
    models = [load_masked_language_model(run.folder(tmp_path) / "steps" / "000004") for run in both]
    here, there = (exact_loss(model, MaskedObjective(), evaluation).kl for model in models)
    expected = paired_difference(there, here)
    assert (kl["value"], kl["standard_error"]) == pytest.approx((expected.value, expected.standard_error))
