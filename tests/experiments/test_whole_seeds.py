from dataclasses import replace
from pathlib import Path

from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.shipped_results import result_as_json
from jobs_in_turn import in_turn
from norm_experiments import experiment, planned


def test_verdicts_are_about_seeds_of_which_every_run_is_there(tmp_path: Path) -> None:
    """Else a difference between seeds would count as one between the runs that are compared."""
    log = tmp_path / "log"
    runs = [planned(seed, log, 1.0) for seed in (1, 2)]
    others = [replace(run, name=f"more-{run.name}", batch_size=8) for run in runs]
    four = experiment(*runs, *others)
    output = tmp_path / "out"
    three = carry_out_experiments([four], output, in_turn, runs=four.runs[:3]).experiments[0]
    assert three.table["run"].n_unique() == 4  # with the reference
    assert (three.left_out, three.judgements[0].runs) == ((2,), 2)
    assert "leave out the runs with seeds 2:" in three.not_judged
    assert result_as_json(three)["seeds_left_out"] == [2]
    whole = carry_out_experiments([four], output, in_turn).experiments[0]
    assert (whole.left_out, whole.not_judged, whole.judgements[0].runs) == ((), "", 4)
