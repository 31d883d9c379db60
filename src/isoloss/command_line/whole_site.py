"""The site of a folder of results: what a call computed, with all that is complete from before."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from isoloss.command_line.options.reproduce import ReproduceOptions
from isoloss.command_line.reproduction_request import command_again
from isoloss.experiments.carry_out import is_complete
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import Executor, ExperimentResult, gathered, was_planned
from isoloss.experiments.kept_portraits import kept_portrait, planned_languages, portrait_jobs
from isoloss.experiments.runner import Outcome
from isoloss.progress import Progress
from isoloss.report.site import Site, write_site
from isoloss.theory.statement_file import kept_statements

SITE, THEORY = "site", "theory"
"""Folders of a folder of results."""


def write_whole_site(
    request: ReproduceOptions,
    suite: Sequence[Experiment],
    results: Sequence[ExperimentResult],
    execute: Executor,
    progress: Progress,
) -> tuple[Path, Outcome]:
    """Write the site of `results`, of the suite's other experiments that are complete, and of statements.

    Returns its first page, and what drawing the languages had to tell.
    """
    names = [result.experiment.name for result in results]
    before = [e for e in suite if e.name not in names and _is_done(e, request.folder)]
    by_name = {r.experiment.name: r for r in (*results, *gathered(before, request.folder))}
    shown = tuple(by_name[e.name] for e in suite if e.name in by_name)
    plans = planned_languages(result.experiment for result in shown)
    outcome = execute(portrait_jobs(plans, request.folder), progress)
    portraits = {plan.digest: kept_portrait(plan, request.folder) for plan in plans}
    site = Site(
        scale=request.scale,
        output=request.folder,
        results=shown,
        portraits={digest: portrait for digest, portrait in portraits.items() if portrait},
        again=partial(command_again, request),
        statements=kept_statements(request.folder / THEORY, smoke=request.scale == "smoke"),
        notices=tuple(f"{failure.job} failed: {failure.text}" for failure in outcome.failures),
    )
    return write_site(site, request.folder / SITE, progress), outcome


def _is_done(experiment: Experiment, output: Path) -> bool:
    return (
        was_planned(experiment, output)
        and all(is_complete(run, output) for run in experiment.runs)
        and all(reference.file(output).exists() for reference in experiment.references)
    )
