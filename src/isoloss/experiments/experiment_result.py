"""Experiments from their plans to their numbers: shared runs once, every claim judged."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from isoloss.experiments.claims import Judgement, judge
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_jobs import experiment_jobs, job_names, jobs_of, shared
from isoloss.experiments.experiment_table import experiment_table, judged_runs
from isoloss.experiments.kept_names import keep_names
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.runner import Job, Outcome
from isoloss.files import writable
from isoloss.progress import Progress, silent

Executor = Callable[[Sequence[Job], Progress], Outcome]
"""Does jobs, each after the one that it needs: on this machine's cores, or on a cluster's."""


@dataclass(frozen=True)
class ExperimentResult:
    """An experiment's table and verdicts; `outcome` is what the jobs that it rests on had to tell."""

    experiment: Experiment
    table: pl.DataFrame
    judgements: tuple[Judgement, ...]
    outcome: Outcome


@dataclass(frozen=True)
class Results:
    """Experiments carried out together, what all their jobs had to tell, and this call's seconds."""

    experiments: tuple[ExperimentResult, ...]
    outcome: Outcome
    seconds: float


def carry_out_experiments(
    experiments: Sequence[Experiment],
    output: Path,
    execute: Executor,
    *,
    runs: Sequence[PlannedRun] | None = None,
    device: str = "cpu",
    progress: Progress = silent,
) -> Results:
    """Carry out `runs` (all of the experiments' by default), then gather all that is measured in `output`.

    Resumable at any moment; a run that fails is named in the result and the others go on. Raises
    IsolossError when `output` cannot be written.
    """
    begun = time.monotonic()
    with writable(output):
        output.mkdir(parents=True, exist_ok=True)
    keep_names(experiments, output)
    planned = [run for experiment in experiments for run in experiment.runs] if runs is None else runs
    outcome = execute(experiment_jobs(experiments, planned, output, device), progress)
    results = tuple(gathered(experiments, output, outcome))
    return Results(results, outcome, time.monotonic() - begun)


def gathered(
    experiments: Sequence[Experiment], output: Path, outcome: Outcome | None = None
) -> list[ExperimentResult]:
    """The results of all that is measured in `output`; nothing is computed but tables and verdicts."""
    outcome = outcome or Outcome((), ())
    names = job_names(experiments, shared(run for experiment in experiments for run in experiment.runs))
    results = []
    for experiment in experiments:
        table = experiment_table(experiment, output)
        own = jobs_of(experiment, names, output)
        told = Outcome(
            tuple(notice for notice in outcome.failures if notice.job in own),
            tuple(notice for notice in outcome.notices if notice.job in own),
        )
        judgements = judge(experiment.claims, judged_runs(table))
        results.append(ExperimentResult(experiment, table, tuple(judgements), told))
    return results
