"""Which jobs an experiment is, and by what a job is found again."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from isoloss.experiments.experiment_jobs import experiment_jobs
from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.planned_run import Continued
from jobs_in_turn import in_turn
from norm_experiments import experiment, planned


def test_a_start_that_is_not_asked_for_is_no_job_where_what_goes_on_from_it_is_complete(
    tmp_path: Path,
) -> None:
    log, output = tmp_path / "log", tmp_path / "out"
    origin = planned(1, log)
    one = experiment(replace(planned(2, log, 1.0), continues=Continued(origin, 2)))
    assert len(experiment_jobs([one], one.runs, output, "cpu")) == 4  # language, reference, start and run
    carry_out_experiments([one], output, in_turn)
    shutil.rmtree(origin.folder(output))
    assert experiment_jobs([one], one.runs, output, "cpu") == []
    of_both = experiment(origin, *one.runs)
    assert len(experiment_jobs([of_both], of_both.runs, output, "cpu")) == 2  # on request, it is made again


KEYS = """
from pathlib import Path
from isoloss.experiments.experiment_jobs import experiment_jobs
from isoloss.experiments.suite.figure_1 import figure_1
from isoloss.experiments.scale import scale_named
figure = figure_1(scale_named("smoke"))
jobs = experiment_jobs([figure], figure.runs[:2], Path("nothing-here"), "cpu")
keys = [f"{job.name}: {job.key}" for job in jobs]
"""


@pytest.mark.slow
def test_a_job_has_one_key_in_whatever_process_it_is_made(tmp_path: Path) -> None:
    """By it the same command finds a cluster's jobs again. Hashes, and hence sets, differ by process."""
    here: dict[str, list[str]] = {}
    exec(KEYS, here)
    called = [sys.executable, "-c", f"{KEYS}\nprint(*keys, sep='\\n')"]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    process = subprocess.run(called, env=environment, cwd=tmp_path, capture_output=True, check=True)
    assert process.stdout.decode().splitlines() == here["keys"]
    assert len({line.split()[-1] for line in here["keys"]}) == len(here["keys"]) > 2


def test_what_is_to_be_measured_is_part_of_a_jobs_key(tmp_path: Path) -> None:
    run = planned(1, tmp_path / "log", 1.0)
    fewer, other = (
        planned(1, tmp_path / "log", factor, steps=steps) for factor, steps in ((1.0, (4,)), (2.0, (2, 4)))
    )
    others = [replace(run, measured=()), fewer, other]
    keys = [experiment_jobs([], [each], tmp_path, "cpu")[-1].key for each in (run, *others)]
    keys.append(experiment_jobs([], [run], tmp_path, "cuda")[-1].key)
    assert len(set(keys)) == 5
