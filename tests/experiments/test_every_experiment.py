"""Properties of every experiment by itself, on empty folders and on rows made by hand."""

from pathlib import Path

import polars as pl
import pytest

from isoloss.executors.job import Schedule
from isoloss.experiments.claims import judge
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_jobs import experiment_jobs
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.scale import scale_named
from isoloss.experiments.shared.language_runs import ScaleName
from isoloss.experiments.suite import builtin_designs, every_experiment
from isoloss.results.verdict import Verdict

MEASURED = {
    "loss": 2.0,
    "kl": 0.01,
    "trace": 10.0,
    "root_fisher": 50.0,
    "raw_loss": 2.1,
    "training_loss": 1.9,
} | dict.fromkeys(
    [
        "accuracy",
        "accuracy_a",
        "accuracy_b",
        "projected_accuracy",
        "released_probe_accuracy",
        "standardised_accuracy",
        "accuracy_100",
        "accuracy_1000",
        "accuracy_sst_2",
        "accuracy_sst_2_untrained",
        "accuracy_qnli",
        "accuracy_qnli_untrained",
    ],
    0.5,
)
"""The value of each column at a run's first checkpoint; its error and number of sentences come with it."""


@pytest.mark.parametrize("scale", ["laptop", "night"])
def test_each_can_be_asked_for_alone(scale: ScaleName, tmp_path: Path) -> None:
    for name, design in builtin_designs().items():
        experiment = design.at(scale_named(scale))
        assert experiment.name == name
        jobs = experiment_jobs([experiment], experiment.runs, tmp_path, "cpu")
        names = {job.name for job in jobs}
        Schedule(jobs)
        assert len(names) == len(jobs) >= len({run.digest for run in experiment.runs})


def rows_of(run: PlannedRun) -> pl.DataFrame:
    """As in `experiment_table` when everything is measured; numbers fall along the run."""
    place = {"run": run.name, "seed": run.first_seed, "saturated": True, "complete": True} | dict(run.labels)
    rows: list[dict[str, object]] = []
    for row, step in enumerate(run.checkpoint_steps):
        numbers: dict[str, object] = {}
        for column, first in MEASURED.items():
            value = first * (1 - row / 100)
            numbers |= {column: value, f"{column}_error": value / 100, f"{column}_sentences": 100}
        rows.append(place | {"step": step} | numbers)
    return pl.DataFrame(rows)


@pytest.mark.parametrize(
    "experiment", every_experiment(scale_named("laptop")), ids=lambda experiment: experiment.name
)
def test_a_single_run_is_judged_inconclusive(experiment: Experiment) -> None:
    """As requested by `reproduce --runs`; the pages print that command for each run."""
    for run in experiment.runs:
        for judged in judge(experiment.claims, [rows_of(run)]):
            assert judged.verdict == Verdict.INCONCLUSIVE
