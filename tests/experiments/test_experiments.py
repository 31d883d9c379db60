import json
import pickle
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pytest
import torch

from isoloss.device import processor
from isoloss.errors import BadInput, FolderHeld
from isoloss.executors.job import Outcome
from isoloss.experiments.experiment_jobs import experiment_jobs, shared
from isoloss.experiments.experiment_result import carry_out_experiments, gathered
from isoloss.experiments.planned_folder import PlannedMeasurement, damaged_files, drawn
from isoloss.experiments.planned_run import Continued, MeasuredAt, PlannedRun, quantity_digest
from isoloss.experiments.statistics.seed_bootstrap import Frames
from isoloss.measurements.quantity import Measurement
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.pretraining.specification import Compute
from isoloss.progress import silent
from isoloss.results.checkpoint import TRAINING_STATE_FILE, WEIGHTS_FILE
from isoloss.stored_runs.stored_run import REVISIONS, runs_in
from jobs_in_turn import in_turn
from norm_experiments import LANGUAGE, Factor, WeightNorm, experiment, planned


def test_what_is_measured_is_a_row_and_nothing_is_computed_twice(tmp_path: Path) -> None:
    log, output = tmp_path / "log", tmp_path / "out"
    one = experiment(planned(1, log, 1.0), planned(2, log, 1.0))
    results = carry_out_experiments([one], output, in_turn)
    table = results.experiments[0].table
    assert table.select("run", "seed", "step", "saturated", "complete", "width").rows() == [
        ("seed-1", 1, 2, False, True, 16),
        ("seed-1", 1, 4, True, True, 16),
        ("seed-2", 2, 2, False, True, 16),
        ("seed-2", 2, 4, True, True, 16),
        ("words", None, None, False, True, None),
    ]
    assert table["words"].drop_nulls().to_list() == [2.0]
    assert table["norm"].drop_nulls().len() == 4
    assert results.experiments[0].judgements[0].effect == pytest.approx(table["norm"][1])
    assert log.read_text().splitlines() == ["1 at 2", "1 at 4"] * 2
    assert experiment_jobs([one], one.runs, output, "cpu") == []
    again = carry_out_experiments([one], output, in_turn)
    assert again.experiments[0].table.equals(table)
    assert len(log.read_text().splitlines()) == 4
    assert again.experiments[0].versions["threads"] == torch.get_num_threads()
    assert again.experiments[0].versions["processor"] == processor()
    assert gathered([one], tmp_path / "elsewhere")[0].versions == {}


HOLD = """
import fcntl, os
fcntl.lockf(os.open(".lock", os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
print("held", flush=True)
input()
"""


@pytest.mark.thorough
def test_what_another_process_is_writing_is_not_taken_for_a_killed_ones(tmp_path: Path) -> None:
    being_written = tmp_path / "references" / f".words.json.{'0' * 32}.part"
    being_written.parent.mkdir()
    being_written.touch()
    one = experiment(planned(1, tmp_path / "log", 1.0))
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HOLD], cwd=tmp_path, stdin=pipe, stdout=pipe) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(FolderHeld, match="wait for it"):
            carry_out_experiments([one], tmp_path, in_turn)
        assert being_written.exists()
        other.communicate(b"\n")
    assert carry_out_experiments([one], tmp_path, in_turn).outcome.failures == ()
    assert not being_written.exists()


def test_equal_runs_of_two_experiments_are_one_run_measured_for_both(tmp_path: Path) -> None:
    log, output = tmp_path / "log", tmp_path / "out"
    first = experiment(planned(1, log, 1.0), name="first")
    second = experiment(replace(planned(1, log, 2.0, steps=(4,)), name="other"), name="second")
    found = carry_out_experiments([first, second], output, in_turn).experiments
    assert len(list((output / "runs").iterdir())) == 1
    assert sorted(log.read_text().splitlines()) == ["1 at 2", "1 at 4", "2 at 4"]
    assert found[1].table["run"].to_list() == ["other", "words"]
    assert found[1].table["norm"][0] == pytest.approx(2 * found[0].table["norm"][1])


@pytest.mark.thorough
def test_a_changed_quantity_alone_is_measured_again(tmp_path: Path) -> None:
    log, output = tmp_path / "log", tmp_path / "out"
    carry_out_experiments([experiment(planned(1, log, 1.0))], output, in_turn)
    weights = {path: path.stat().st_mtime_ns for path in output.rglob(WEIGHTS_FILE)}
    carry_out_experiments([experiment(planned(1, log, 1.0, 3.0))], output, in_turn)
    assert log.read_text().splitlines() == ["1 at 2", "1 at 4", "3 at 2", "3 at 4"]
    assert {path: path.stat().st_mtime_ns for path in output.rglob(WEIGHTS_FILE)} == weights


def test_a_run_goes_on_from_another_and_is_named_before_that_one_is_there(tmp_path: Path) -> None:
    log, output = tmp_path / "log", tmp_path / "out"
    origin = planned(1, log)
    after = replace(planned(2, log, 1.0), continues=Continued(origin, 2))
    assert after.digest not in {planned(2, log).digest, replace(after, continues=Continued(origin, 4)).digest}
    assert [run.digest for run in shared([after])] == [origin.digest, after.digest]
    result = carry_out_experiments([experiment(after)], output, in_turn).experiments[0]
    assert result.outcome == Outcome((), ())
    assert result.table["run"].to_list() == ["seed-2", "seed-2", "words"]
    specification = json.loads((after.folder(output) / "specification.json").read_text())
    assert specification["start_from"] is not None


def test_a_run_in_another_precision_is_another_run_and_so_is_its_origin(tmp_path: Path) -> None:
    run = replace(planned(2, tmp_path), continues=Continued(planned(1, tmp_path), 2))
    other = run.carried_out_by(Compute("bfloat16"))
    assert run.carried_out_by(Compute()) == run
    assert other.digest != run.digest
    assert other.continues.run.compute == Compute("bfloat16")
    assert other.continues.step == 2


def test_raw_weights_are_measured_beside_averaged_ones(tmp_path: Path) -> None:
    log, output = tmp_path / "log", tmp_path / "out"
    plain, norm = planned(1, log, 1.0), WeightNorm(1.0, str(log))
    both = (MeasuredAt(norm, (2, 4)), MeasuredAt(norm, (4,), weights="raw"))
    averaged = replace(plain, name="averaged", averaging_horizon=3, measured=both)
    assert averaged.digest != plain.digest
    (result,) = carry_out_experiments([experiment(plain, averaged)], output, in_turn).experiments
    table = result.table.filter(pl.col("step") == 4)
    assert table["raw_norm"][1] == table["norm"][0] != table["norm"][1]
    assert table["raw_checkpoint"][1] == table["checkpoint"][0] != table["checkpoint"][1]
    assert log.read_text().splitlines() == ["1 at 2", "1 at 4", "1 at 2", "1 at 4", "1 at 4"]
    assert experiment_jobs([], [averaged], output, "cpu") == []
    (kept,) = PlannedMeasurement(averaged, 4, norm).records(output)
    (raw,) = PlannedMeasurement(averaged, 4, norm, "raw").records(output)
    assert (kept.value, raw.value) == (table["norm"][1], table["raw_norm"][1])
    (averaged.folder(output) / "measured" / "000004" / f"{measured_on(averaged)}-raw.jsonl").unlink()
    assert len(experiment_jobs([], [averaged], output, "cpu")) == 2  # the language's, and the run's


def measured_on(run: PlannedRun) -> str:
    return quantity_digest(run.measured[0].quantity, LANGUAGE.digest, run.objective)


def test_raw_weights_are_only_asked_for_where_there_are_others(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="seed-1 keeps no average, so that its checkpoints hold the raw"):
        replace(planned(1, tmp_path), measured=(MeasuredAt(WeightNorm(1.0, ""), (4,), weights="raw"),))


def test_a_run_cut_short_is_shown_and_not_judged(tmp_path: Path) -> None:
    log, output = tmp_path / "log", tmp_path / "out"
    both = experiment(planned(1, log, 1.0), planned(2, log, 1.0))
    carry_out_experiments([both], output, in_turn)
    folder = both.runs[0].folder(output)
    for part in (folder / "measured" / "000004").iterdir():
        part.unlink()
    (result,) = gathered([both], output)
    assert result.table.filter(pl.col("run") == "seed-1")["complete"].to_list() == [False]
    assert result.judgements[0].effect == pytest.approx(result.table["norm"][2])


def test_a_damaged_checkpoint_is_named_and_the_rest_is_measured(tmp_path: Path) -> None:
    log, output = tmp_path / "log", tmp_path / "out"
    one = experiment(planned(1, log))
    carry_out_experiments([one], output, in_turn)
    damaged = one.runs[0].folder(output) / "steps" / "000002"
    (damaged / WEIGHTS_FILE).write_bytes(b"no weights")
    assert (damaged / TRAINING_STATE_FILE).exists()
    wanted = experiment(planned(1, log, 1.0))
    result = carry_out_experiments([wanted], output, in_turn).experiments[0]
    assert result.table["step"].to_list() == [4, None]
    assert "000002" in result.outcome.notices[0].text


OF_WIDTH_32 = PreLayerNormTransformer(laptop_shape(32))
"""Other than the weights that a run is to start from."""


def test_a_failing_run_does_not_sink_the_experiment(tmp_path: Path) -> None:
    log, output = tmp_path / "log", tmp_path / "out"
    wrong = replace(planned(2, log, 1.0), continues=Continued(planned(1, log), 2), architecture=OF_WIDTH_32)
    result = carry_out_experiments([experiment(planned(1, log, 1.0), wrong)], output, in_turn).experiments[0]
    assert [failure.job for failure in result.outcome.failures] == ["norms seed-2"]
    assert result.table["run"].unique().sort().to_list() == ["seed-1", "words"]


def test_a_statistic_that_fails_is_named_and_costs_other_experiments_nothing(tmp_path: Path) -> None:
    one = experiment(planned(1, tmp_path / "log", 1.0))

    def eighth(runs: Frames) -> float:
        return float(runs[7]["norm"][0])

    wrong = replace(one, name="wrong", claims=(replace(one.claims[0], statistic=eighth),))
    results = carry_out_experiments([wrong, one], tmp_path / "out", in_turn)
    (failure,) = results.outcome.failures
    assert failure.job == "wrong"
    assert re.match(
        rf"its claims are not judged: {re.escape(__file__)}, line \d+, in .*: IndexError: .*; mend the",
        failure.text,
    )
    assert [len(each.judgements) for each in results.experiments] == [0, 1]
    assert not results.experiments[0].table.is_empty()


def test_what_cannot_be_an_experiment_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(BadInput, match=r"seeds \[900\] chose the scale"):
        experiment(planned(900, log))
    with pytest.raises(BadInput, match="two runs of norms have one name"):
        experiment(planned(1, log), planned(1, log, 1.0))
    with pytest.raises(BadInput, match="no checkpoint at step 3 to measure"):
        planned(1, log, 1.0, steps=(3,))
    with pytest.raises(BadInput, match=r"saturated from step 2,000 on, and its last checkpoint is at step"):
        replace(planned(1, log), saturated_from=2000)


def test_a_measuring_set_that_is_damaged_or_of_another_format_is_drawn_again(tmp_path: Path) -> None:
    run = planned(1, tmp_path / "log", 1.0)
    quantity = run.measured[0].quantity
    arguments = (quantity, LANGUAGE.ready, LANGUAGE.digest, run.objective, tmp_path)
    assert drawn(*arguments) == drawn(*arguments) == Factor(torch.tensor(1.0))
    digest = quantity_digest(quantity, LANGUAGE.digest, run.objective)
    path = tmp_path / "measured-on" / f"{digest}.safetensors"
    whole = path.read_bytes()
    for content in (b"", whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), pickle.dumps(Exit())):
        path.write_bytes(content)
        assert drawn(*arguments, progress=silent) == Factor(torch.tensor(1.0))
        assert path.read_bytes() == whole


@dataclass(frozen=True)
class Nothing(WeightNorm):
    """Measures, and returns no records."""

    def measure(self, *_: object) -> Measurement:
        return Measurement([])


def test_a_quantity_without_records_fails_its_run(tmp_path: Path) -> None:
    run = replace(planned(1, tmp_path / "log"), measured=(MeasuredAt(Nothing(1.0, ""), (2, 4)),))
    result = carry_out_experiments([experiment(run)], tmp_path / "out", in_turn).experiments[0]
    (failure,) = result.outcome.failures
    assert failure.text.startswith("Nothing gives no records of step 2 of seed-1; let measure return what")


class Exit:
    def __reduce__(self) -> tuple[object, ...]:
        return SystemExit, ("code from a results folder was run",)


def test_a_mended_quantity_is_measured_anew_and_never_mixed_with_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, output = tmp_path / "log", tmp_path / "out"
    one = experiment(planned(1, log, 1.0))
    (before,) = carry_out_experiments([one], output, in_turn).experiments
    monkeypatch.setattr(WeightNorm, "revision", 2)
    (halfway,) = gathered([one], output)
    assert halfway.table["run"].to_list() == ["words"]
    (after,) = carry_out_experiments([one], output, in_turn).experiments
    assert log.read_text().splitlines() == ["1 at 2", "1 at 4"] * 2
    assert after.table.drop_nulls("norm")["norm"].equals(before.table.drop_nulls("norm")["norm"])
    plan = json.loads((one.runs[0].folder(output) / "plan.json").read_text())
    assert [each["quantity"]["revision"] for each in plan["measured"]] == [1, 2]
    (run,) = runs_in(output)
    assert run.state == "complete"
    assert [len(each.records) for each in run.checkpoints] == [1, 1]  # none of the older revision
    monkeypatch.setitem(REVISIONS, "WeightNorm", 3)
    (run,) = runs_in(output)
    assert run.state_in_words.startswith("out of date: WeightNorm has another revision now")
    assert not run.last_records


def test_what_is_damaged_is_told_of_with_its_cost_and_made_again(tmp_path: Path) -> None:
    log, output = tmp_path / "log", tmp_path / "out"
    one = experiment(planned(1, log, 1.0))
    (before,) = carry_out_experiments([one], output, in_turn).experiments
    (first, second) = sorted(one.runs[0].folder(output).glob("measured/*/*.jsonl"))
    first.write_text(first.read_text().replace('"n": 5', '"n": 7'))
    shutil.copy(first.with_name(second.name), second)  # measured at another step
    (reference,) = (output / "references").iterdir()
    reference.write_text("")
    plan = one.runs[0].folder(output) / "plan.json"
    whole = plan.read_text()
    plan.write_text(whole.replace("seed-1", "seed-2"))
    of_plan, *told = damaged_files(one.runs[0], output)
    assert re.fullmatch(rf"{plan} cannot be read \(.*\); it is written anew, which costs nothing", of_plan)
    assert [str(path) in line for path, line in zip((first, second), told, strict=True)] == [True, True]
    assert all("is measured again, which has to load its checkpoint" in line for line in told)
    (halfway,) = gathered([one], output)
    assert halfway.table.is_empty()
    (after,) = carry_out_experiments([one], output, in_turn).experiments
    assert after.table.equals(before.table)
    assert damaged_files(one.runs[0], output) == []
    assert plan.read_text() == whole
