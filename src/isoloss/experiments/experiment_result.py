"""Carries out experiments, with shared runs computed once, and judges every claim."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from isoloss.errors import BadInput, IsolossError, place_in_users_code
from isoloss.executors.job import Job, Notice, Outcome, last_line
from isoloss.experiments.claims import Judgement, judge
from isoloss.experiments.experiment import Experiment, PlannedReference
from isoloss.experiments.experiment_jobs import experiment_jobs, job_names, jobs_of, shared
from isoloss.experiments.misspelt_names import refuse_misspelt_names, refuse_text_on_axes
from isoloss.experiments.planned_folder import DRAWN_FOLDER, PlannedMeasurement, damaged_files, is_complete
from isoloss.experiments.planned_run import PlannedRun, named_as_planned
from isoloss.files import alone_in, remove_unfinished
from isoloss.progress import Progress, part_of, silent
from isoloss.results.measurement_store import REFERENCES_FOLDER
from isoloss.results.record import Setting
from isoloss.stored_runs.run_names import RunNames, names_file
from isoloss.stored_runs.stored_run import stored_run

Row = dict[str, Setting]
Executor = Callable[[Sequence[Job], Progress], Outcome]
"""Does jobs, each after the one that it needs: on this machine's cores, or on a cluster's."""


@dataclass(frozen=True)
class ExperimentResult:
    """An experiment's table and verdicts.

    `outcome` holds the reports of the jobs it depends on, `versions` those of software and machine with which
    its first run was trained. `left_out` are the seeds that verdicts are not about, see `of_whole_seeds`.
    """

    experiment: Experiment
    table: pl.DataFrame
    judgements: tuple[Judgement, ...]
    outcome: Outcome
    versions: dict[str, Any] = field(default_factory=dict)
    left_out: tuple[int, ...] = ()

    @property
    def tested(self) -> tuple[Judgement, ...]:
        """What is said of premises and effects, without the claims that were withdrawn."""
        return tuple(judged for judged in self.judgements if judged.claim.role != "withdrawn")

    @property
    def withdrawn(self) -> tuple[Judgement, ...]:
        """The rest."""
        return tuple(judged for judged in self.judgements if judged.claim.role == "withdrawn")

    @property
    def own_failures(self) -> tuple[Notice, ...]:
        """Why no claim was judged, or no panel drawn, if the user's code failed; the others are of jobs."""
        return tuple(each for each in self.outcome.failures if each.job == self.experiment.name)

    @property
    def not_judged(self) -> str:
        """A sentence on the seeds that verdicts are not about; empty where they are about all."""
        if not (self.left_out and self.experiment.claims):
            return ""
        return (
            f"Verdicts leave out the runs with seeds {', '.join(map(str, self.left_out))}: others with the "
            "same seed and language are missing or failed. Where training broke off, verdicts on stability "
            "are about the rest."
        )


@dataclass(frozen=True)
class Results:
    """Experiments carried out together, the reports of all their jobs, and this call's seconds."""

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
    """Carry out `runs` (by default all of the experiments'), then collect all measurements in `output`.

    Resumable at any moment; a run that fails is named in the result while the others continue. Incomplete
    files of killed processes in `output` are removed. Raises BadInput as `refuse_misspelt_names`, FolderHeld
    while another process works in `output`, IsolossError if it cannot be written.
    """
    begun = time.monotonic()
    for experiment in experiments:
        refuse_misspelt_names(experiment)
    with alone_in(output):
        remove_half_written(output)
        keep_names(experiments, output)
        planned = [run for experiment in experiments for run in experiment.runs] if runs is None else runs
        outcome = execute(experiment_jobs(experiments, planned, output, device), progress)
        results = tuple(gathered(experiments, output, outcome, progress))
        own = [each for result in results for each in result.own_failures]
        outcome = replace(outcome, failures=(*outcome.failures, *own))
    return Results(results, outcome, time.monotonic() - begun)


def remove_half_written(output: Path) -> None:
    """Remove incomplete files of killed processes outside the runs, each of which cleans up its own.

    May only be called by the sole process working in `output`, apart from jobs that an earlier call left on a
    cluster.
    """
    for name in (".", DRAWN_FOLDER, "portraits", REFERENCES_FOLDER, "experiments"):
        remove_unfinished(output / name)


def gathered(
    experiments: Sequence[Experiment],
    output: Path,
    outcome: Outcome | None = None,
    progress: Progress = silent,
) -> list[ExperimentResult]:
    """The results of all measurements in `output`; computes only tables and verdicts.

    Statistics or panels of the user's that fail are failures of the experiment, which has none of them then.
    """
    outcome = outcome or Outcome((), ())
    names = job_names(experiments, shared(run for experiment in experiments for run in experiment.runs))
    results = []
    for done, experiment in enumerate(experiments):
        table = experiment_table(experiment, output)
        names_of_jobs = jobs_of(experiment, names)
        of_experiment = Outcome(
            tuple(notice for notice in outcome.failures if notice.job in names_of_jobs),
            tuple(notice for notice in outcome.notices if notice.job in names_of_jobs),
        )
        of_this = part_of(progress, done, len(experiments))
        judged, left_out = of_whole_seeds(judged_runs(table), experiment.runs)
        judgements: list[Judgement] = []
        failed: list[str] = []
        try:
            judgements = judge(experiment.claims, judged, progress=of_this)
        except Exception as error:
            failed.append(_why("its claims are not judged", error, "mend the statistic"))
        if why := _why_not_drawn(experiment, table):
            experiment = replace(experiment, panels=lambda _table: ())
            failed.append(why)
        own = (Notice(experiment.name, each) for each in failed)
        of_experiment = replace(of_experiment, failures=(*of_experiment.failures, *own))
        trained_with = _versions(experiment, output)
        results.append(
            ExperimentResult(experiment, table, tuple(judgements), of_experiment, trained_with, left_out)
        )
    return results


def _why_not_drawn(experiment: Experiment, table: pl.DataFrame) -> str:
    """Why its panels cannot be drawn of the table; empty if they can, or lack a column of a missing run."""
    try:
        for panel in experiment.drawn(table):
            refuse_text_on_axes(panel, experiment.name)
    except Exception as error:
        there = set() if table.is_empty() else set(table.filter(pl.col("complete"))["run"])
        missing = {run.name for run in experiment.runs} - there
        if missing and isinstance(error, pl.exceptions.ColumnNotFoundError):
            return ""
        advice = f"{len(missing)} of its runs are missing; finish them" if missing else "mend the function"
        return _why("its panels are not drawn", error, advice)
    return ""


def _why(consequence: str, error: Exception, what_to_do: str) -> str:
    """The sentence, with the line of the user's own file. Raises what is the library's own mistake."""
    place = place_in_users_code(error)
    if not place and not isinstance(error, IsolossError):
        raise error
    why = str(error) if isinstance(error, IsolossError) else f"{type(error).__name__}: {last_line(error)}"
    return f"{consequence}: {f'{place}: ' if place else ''}{why}; {what_to_do} and run again"


def _versions(experiment: Experiment, output: Path) -> dict[str, Any]:
    """The versions and the machine that the first of its runs in `output` was begun with; empty for none."""
    for run in experiment.runs:
        with suppress(BadInput):
            contents = [checkpoint.content for checkpoint in stored_run(run.folder(output)).checkpoints]
            if contents:
                return next((dict(each["versions"]) for each in contents if "versions" in each), {})
    return {}


def keep_names(experiments: Sequence[Experiment], output: Path) -> None:
    """Write `output`/experiments/NAME.json for each experiment: its title, and its runs' names by folder.

    If an experiment has several names for a folder, the first is used. Raises IsolossError if a file cannot
    be written.
    """
    for experiment in experiments:
        runs = {run.folder(output).name: run.name for run in reversed(experiment.runs)}
        RunNames(experiment.name, experiment.title, runs).write(output)


def was_planned(experiment: str, output: Path) -> bool:
    """Whether the experiment's run names are stored in `output`, i.e. it has been requested there."""
    return names_file(experiment, output).exists()


def experiment_table(experiment: Experiment, output: Path) -> pl.DataFrame:
    """Rows in the order of the runs and then by step; the references last.

    Columns: `run`, `seed` (for a continued run, that of the original, since claims count seeds), `step` (both
    null for references), `saturated`, `complete` (everything planned for the run has been measured), the
    runs' labels, and each quantity's columns, null if not measured.
    """
    rows = [row for run in experiment.runs for row in _run_rows(run, output)]
    rows += [row for reference in experiment.references for row in _reference_rows(reference, output)]
    return pl.DataFrame(rows, infer_schema_length=None)


def judged_runs(table: pl.DataFrame) -> list[pl.DataFrame]:
    """The data for judging claims: one frame per complete run, with its saturated checkpoints, and reference.

    An incomplete run is left out, since its missing checkpoints are not missing at random. References are
    included if they are marked as judged.
    """
    if table.is_empty():
        return []
    counted = table.filter(pl.col("complete") & pl.col("saturated"))
    return counted.partition_by("run", maintain_order=True)


def of_whole_seeds(
    frames: Sequence[pl.DataFrame], runs: Sequence[PlannedRun]
) -> tuple[list[pl.DataFrame], tuple[int, ...]]:
    """The frames of those seeds of which, in a language, every planned run is there, and the other seeds.

    Means over different seeds would count a difference between seeds as one between the runs compared; and a
    run that failed because its training broke off says something about claims on stability.
    """
    there = {frame["run"][0] for frame in frames}
    lacking = {_seed_in_language(run) for run in runs if _is_judged(run) and run.name not in there}
    others = {run.name for run in runs if _seed_in_language(run) in lacking}
    whole = [frame for frame in frames if frame["run"][0] not in others]
    return whole, tuple(sorted({seed for seed, _ in lacking}))


def _is_judged(run: PlannedRun) -> bool:
    return any(step >= run.saturated_from for measured in run.measured for step in measured.steps)


def _seed_in_language(run: PlannedRun) -> tuple[int, str]:
    return run.first_seed, run.language.digest


def _run_rows(run: PlannedRun, output: Path) -> list[Row]:
    complete = is_complete(run, output)
    rows = []
    for step in run.checkpoint_steps:
        columns: Row = {}
        for measured in run.measured:
            wanted = PlannedMeasurement(run, step, measured.quantity, measured.weights)
            if step in measured.steps and (found := wanted.records(output)):
                columns |= measured.columns(found)
        if columns:
            place: Row = {"run": run.name, "seed": run.first_seed, "step": step}
            where: Row = {"saturated": step >= run.saturated_from, "complete": complete}
            rows.append(place | where | dict(run.labels) | columns | {"folder": run.digest[:16]})
    return rows


def _reference_rows(reference: PlannedReference, output: Path) -> list[Row]:
    records = reference.records(output)
    if not records:
        return []
    place: Row = {"run": reference.name, "seed": None, "step": None, "complete": True}
    place["saturated"] = reference.judged
    return [place | dict(reference.labels) | named_as_planned(reference.quantity, records)]


def experiment_damage(
    runs: Sequence[PlannedRun], references: Sequence[PlannedReference], folder: Path
) -> list[str]:
    """A sentence for each damaged file of the runs and references, with the consequence."""
    of_runs = [sentence for run in shared(runs) for sentence in damaged_files(run, folder)]
    return [*of_runs, *filter(None, (reference.damage(folder) for reference in references))]


def is_done(experiment: Experiment, output: Path) -> bool:
    """Whether all of the experiment's runs and references are complete in `output`."""
    return all(is_complete(run, output) for run in experiment.runs) and all(
        reference.records(output) for reference in experiment.references
    )
