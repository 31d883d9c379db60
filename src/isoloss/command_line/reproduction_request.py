"""What `isoloss reproduce` is asked for: which experiments, at which scale, on which language."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from isoloss.command_line.options.reproduce import ReproduceOptions
from isoloss.command_line.own_language import OF_YOUR_OWN, on_your_own
from isoloss.errors import BadInput, did_you_mean
from isoloss.executors.runner import Outcome
from isoloss.experiments.carry_out import is_complete
from isoloss.experiments.drift.clock import paces
from isoloss.experiments.experiment import Experiment, only_named
from isoloss.experiments.experiment_result import Executor, ExperimentResult, gathered, was_planned
from isoloss.experiments.kept_portraits import kept_portrait, planned_languages, portrait_jobs
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.scales.scale import UNJUDGED
from isoloss.experiments.suite import every_experiment, scale_named
from isoloss.pretraining.compute import Compute
from isoloss.progress import Progress
from isoloss.report.site import Site, write_site
from isoloss.theory.statement_file import kept_statements

SITE, THEORY = "site", "theory"
"""Folders of a folder of results."""

ALL = "all"


def command_again(request: ReproduceOptions, experiment: Experiment, run: PlannedRun) -> str:
    """The command that computes one run anew, in a folder of its own."""
    words = ["isoloss", "reproduce", experiment.name, "--scale", request.scale]
    words += ["--runs", run.name, "--output", "one-run"]
    options = {
        "--language": request.language,
        "--maximum-length": request.maximum_length,
        "--task": request.task if experiment.name in OF_YOUR_OWN else None,
        "--settings": request.settings if experiment.name == "drift" else None,
        "--device": None if request.device == "cpu" else request.device,
        "--tokens": request.tokens,
        "--precision": None if request.precision == "float32" else request.precision,
    }
    for name, value in options.items():
        words += [name, str(value)] if value is not None else []
    words += ["--compiled"] if request.compiled else []
    words += ["--any-task"] if request.any_task and experiment.name in OF_YOUR_OWN else []
    return shlex.join(words)


@dataclass(frozen=True)
class Choice:
    """The experiments that are asked for, the runs of theirs, and all that the site may show."""

    experiments: tuple[Experiment, ...]
    runs: tuple[PlannedRun, ...]
    suite: tuple[Experiment, ...]


def choice(request: ReproduceOptions) -> Choice:
    """What the request means. Raises BadInput for what cannot be, the known names listed."""
    scale = scale_named(request.scale)
    if request.tokens is not None:
        scale = scale.with_tokens(request.tokens)
    suite = every_experiment(scale)
    known = [experiment.name for experiment in suite]
    _refuse_unknown(request.names, known)
    chosen = known if ALL in request.names else [name for name in known if name in request.names]
    if request.measure and not (request.dry_run and request.on == "local"):
        raise BadInput("--measure goes with --dry-run and --on local: it times the models here, then stops")
    if request.maximum_length is not None and request.language is None:
        raise BadInput("--maximum-length needs --language; the scale's own language has a fixed length")
    if request.settings is not None:
        if "drift" not in chosen:
            raise BadInput("--settings are the learning rates and batches of drift; name that experiment")
        scale = replace(scale, drift=replace(scale.drift, paces=paces(request.settings)))
        suite = every_experiment(scale)
    if request.language is not None or request.task is not None:
        own = on_your_own(request, scale)
        others = () if request.language else tuple(e for e in suite if e.name not in request.names)
        suite = (*own, *others)
    suite = tuple(
        _carried_out_by(Compute(request.precision, request.compiled), experiment) for experiment in suite
    )
    if scale.name == UNJUDGED:
        suite = tuple(replace(experiment, claims=()) for experiment in suite)
    experiments = tuple(experiment for experiment in suite if experiment.name in chosen)
    if request.runs and len(experiments) != 1:
        raise BadInput("--runs names runs of one experiment; name that experiment alone")
    runs = [run for experiment in experiments for run in only_named(experiment, request.runs)]
    return Choice(experiments, tuple(runs), suite)


def _carried_out_by(compute: Compute, experiment: Experiment) -> Experiment:
    return replace(experiment, runs=tuple(run.carried_out_by(compute) for run in experiment.runs))


def _refuse_unknown(names: Sequence[str], known: Sequence[str]) -> None:
    choices = f"choose {ALL}, or among {', '.join(known)}"
    if not names:
        raise BadInput(f"name what to reproduce: {choices}")
    for name in names:
        if name != ALL and name not in known:
            near = did_you_mean(name, (ALL, *known)) or f"; {choices}"
            raise BadInput(f"there is no experiment {name!r}{near}")


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
        and all(reference.records(output) for reference in experiment.references)
    )
