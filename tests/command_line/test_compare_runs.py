"""`isoloss compare-runs`, on folders written by hand and on two real runs of a second."""

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from called import Capture, Terminal, answer, json_of, output_of, run

from hand_made_runs import LOSS, write_measurement, write_run
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.planned_run import measured_at
from isoloss.languages.dyck import dyck
from isoloss.measurements.exact_loss import EvaluationSet, ExactLossQuantity, exact_loss
from isoloss.measurements.on_sentences.traces import TraceQuantity
from isoloss.models.loading import load_masked_language_model
from isoloss.objectives.masked import MaskedObjective
from isoloss.results.estimate import paired_difference
from isoloss.results.measurement_store import measurements_at
from isoloss.results.record import Record
from jobs_in_turn import in_turn
from norm_experiments import RUN

OfTwo = Callable[..., tuple[int, str, str]]


@pytest.fixture
def of_two(tmp_path: Path, capsys: Capture) -> OfTwo:
    """`isoloss compare-runs` of the runs aaaa1111 and aabb2222 in the test's folder, with more options."""
    return partial(answer, capsys, "compare-runs", "aaaa", "aabb", "--results", tmp_path)


def test_compare_begins_with_a_conclusion(results: Path, of_two: OfTwo) -> None:
    first, *lines = output_of(of_two()).splitlines()
    assert first.startswith("At step 40, compared with width-32 (aaaa1111), aabb2222 has a lower loss (-0.5")
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
    assert lines[0].startswith("At step 40, compared with width-32 (aaaa1111), aabb2222 has a lower loss")
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


def test_the_conclusion_says_at_which_step_each_number_is(tmp_path: Path, of_two: OfTwo) -> None:
    """The trace is known of both at step 10 only, the loss at step 40 too."""
    trace = {10: [5.0, 6.0]}
    write_run(tmp_path, "aaaa1111", loss=LOSS, trace=trace)
    write_run(tmp_path, "aabb2222", loss=LOSS, trace={10: [6.0, 7.0], 40: [1.0, 2.0]})
    shown = output_of(of_two())
    assert shown.startswith("At step 40, ")
    assert "no clear difference in loss (0 ± 0 nats); " in shown
    assert "a higher trace (1 ± 0 nats, at step 10)." in shown


@pytest.mark.parametrize(
    ("traces", "told"),
    [
        ([5.5, 7.5], "no clear difference in trace (1.5 ± 1.0 nats)"),
        ([6.5, 8.5], "a higher trace (2.5 ± 1.0 nats)"),
    ],
)
def test_a_difference_within_two_errors_is_not_clear(
    traces: list[float], told: str, tmp_path: Path, of_two: OfTwo
) -> None:
    write_run(tmp_path, "aaaa1111", trace={40: [5.0, 5.0]})
    write_run(tmp_path, "aabb2222", trace={40: traces})
    assert told in output_of(of_two())


def test_a_later_trace_of_the_enlarged_models_is_not_taken_for_the_runs(
    tmp_path: Path, of_two: OfTwo
) -> None:
    for name, own in (("aaaa1111", 5.0), ("aabb2222", 6.0)):
        folder = write_run(tmp_path, name, trace={10: [own, own + 1]})
        settings = {"step": 40, "measured_on": "enlarged", "enlarged_to": 48}
        enlarged = Record("fisher_trace", 100 - own, "nats", 0.1, 2, settings=settings)
        measurements_at(folder, name, 40).write("enlarged", [enlarged])
    shown = output_of(of_two())
    assert shown.startswith("At step 10, ")
    assert "a higher trace (1 ± 0 nats)." in shown


@pytest.mark.parametrize(
    ("folders", "called"),
    [
        (("runs/width-32-seed-1", "runs/width-32-seed-2"), ("width-32-seed-1", "width-32-seed-2")),
        (("a/runs/seed-1", "b/runs/seed-1"), ("a/runs/seed-1", "b/runs/seed-1")),
    ],
)
def test_two_folders_of_names_alike_are_told_apart(
    folders: tuple[str, str],
    called: tuple[str, str],
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in map(Path, folders):
        write_run(folder.parent.parent, folder.name, loss=LOSS)
    shown = output_of(answer(capsys, "compare-runs", *folders))
    assert f"compared with {called[0]}, {called[1]} has" in shown
    assert f"{called[1]} minus {called[0]}" in shown


def test_each_task_is_compared_under_its_name(tmp_path: Path, of_two: OfTwo) -> None:
    for name, right in (("aaaa1111", 0.5), ("aabb2222", 0.75)):
        folder = write_run(tmp_path, name)
        for task in ("root", "prefix-4"):
            values = np.array([right, right + (task == "root")])
            write_measurement(folder, 40, "linear_probe_accuracy", f"on-{task}", values, True, task)
    shown = output_of(of_two())
    for task in ("root", "prefix-4"):
        assert f"a higher accuracy on {task} (0.25 ± 0 nats)" in shown
        assert any(f"│ accuracy on {task} " in line for line in shown.splitlines())


def test_compare_shows_settings_and_paired_differences(results: Path, of_two: OfTwo) -> None:
    shown = output_of(of_two("--all"))
    assert "architecture.shape.width" in shown
    assert "not paired" not in shown
    assert len([line for line in shown.splitlines() if "masked loss" in line]) == 2
    found = json_of(of_two("--json"))
    assert [each["setting"] for each in found["settings"]] == ["architecture.shape.width", "seed"]
    assert [each["difference"]["value"] for each in found["differences"]] == pytest.approx([0.1, -0.5])
    assert [each["difference"]["standard_error"] for each in found["differences"]] == pytest.approx(
        [0.0, 0.0], abs=1e-12
    )


def test_compare_at_one_loss(results: Path, of_two: OfTwo) -> None:
    assert json_of(of_two("--at-loss", "1.5", "--json"))["loss"] == 1.5
    assert "nothing is measured for both" in output_of(of_two("--same-loss"))  # except the loss itself


def test_what_is_not_known_at_the_loss_is_named(tmp_path: Path, capsys: Capture, of_two: OfTwo) -> None:
    """The first run's loss falls to 1.2 after step 10, the last at which its trace is measured."""
    probe, traces = "linear_probe_accuracy", {10: [5.0, 6.0], 40: [7.0, 8.0]}
    for name, steps in (("aaaa1111", (10,)), ("aabb2222", (10, 40))):
        folder = write_run(tmp_path, name, loss=LOSS, trace={step: traces[step] for step in steps})
        for step in (10, 40):
            write_measurement(folder, step, probe, "on-task", np.array([0.5, 0.75]), True, "root")
    said = "not compared: fisher trace; not measured for both runs on both sides of this loss"
    for more in ([], ["--all"]):
        shown = output_of(of_two("--same-loss", *more))
        assert "accuracy" in shown
        assert said in shown.splitlines()
        assert "not compared" not in output_of(of_two(*more))
    found = json_of(of_two("--same-loss", "--json"))
    assert [each["quantity"] for each in found["differences"]] == [probe]
    assert [each["quantity"] for each in found["not_compared"]] == ["fisher_trace"]
    assert json_of(of_two("--json"))["not_compared"] == []
    write_run(tmp_path, "bbbb3333", loss=LOSS, trace={40: [7.0, 8.0]})
    at_steps = "not compared: fisher trace; not measured for both runs at one step"
    for more, told in ((["--same-loss"], said), ([], at_steps)):
        shown = output_of(answer(capsys, "compare-runs", "aaaa", "bbbb", "--results", tmp_path, *more))
        assert told in shown.splitlines()


def test_runs_of_different_languages_are_compared_in_their_settings_and_unfinished_ones_are_told(
    results: Path, capsys: Capture
) -> None:
    code, out, err = answer(capsys, "compare-runs", "aaaa", "cccc", "--results", results)
    assert (code, "the runs are of different languages" in out) == (0, True)
    assert "cccc3333 is unfinished: trained to step" in err


def test_compare_says_when_no_value_is_kept(tmp_path: Path, capsys: Capture) -> None:
    for name in ("first", "second"):
        write_run(tmp_path, name, loss=LOSS, kept=False)
    shown = output_of(answer(capsys, "compare-runs", "first", "second", "--results", tmp_path))
    assert "no setting differs" in shown
    assert "the two errors are taken as independent" in shown


@pytest.mark.thorough
def test_real_runs_are_read_as_they_were_written(tmp_path: Path, capsys: Capture) -> None:
    quantities = ExactLossQuantity(20, seed=3), TraceQuantity(12, seed=4)
    measured = measured_at((2, 4), *quantities)
    both = [replace(RUN, name=f"seed-{seed}", seed=seed, measured=measured) for seed in (900, 901)]
    carry_out_experiments([Experiment("pair", "Pair", (), tuple(both), lambda table: ())], tmp_path, in_turn)
    listed = {each["run"]: each for each in json_of(answer(capsys, "runs", tmp_path, "--json"))["runs"]}
    assert {each["state_in_words"] for each in listed.values()} == {"complete"}
    assert listed[both[0].digest[:16]]["names"] == {"pair": "seed-900"}

    first, second = ["pair seed-900", "pair seed-901"]
    found = json_of(answer(capsys, "compare-runs", first, second, "--results", tmp_path, "--json"))
    assert [each["setting"] for each in found["settings"]] == ["seed"]
    means = [each for each in found["differences"] if "deviation" not in each["quantity"]]
    assert len(means) > 2 * 3
    assert all(each["paired"] for each in means)
    (kl,) = [
        each["difference"]
        for each in means
        if each["quantity"] == "masked_kl_sentence_averaged" and each["steps"] == [4, 4]
    ]
    evaluation = EvaluationSet.draw(dyck(4), 20, 3)
    models = [load_masked_language_model(run.folder(tmp_path) / "steps" / "000004") for run in both]
    here, there = (exact_loss(model, MaskedObjective(), evaluation).kl for model in models)
    expected = paired_difference(there, here)
    assert (kl["value"], kl["standard_error"]) == pytest.approx((expected.value, expected.standard_error))
