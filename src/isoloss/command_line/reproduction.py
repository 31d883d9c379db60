"""`isoloss reproduce`: checks what was asked for, carries it out, writes the site, tells the verdicts."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from isoloss.command_line.cost_table import print_cost
from isoloss.command_line.progress_display import progress_display
from isoloss.command_line.reproduction_request import Choice, Request, choice
from isoloss.command_line.verdict_table import print_verdicts
from isoloss.errors import BadInput
from isoloss.experiments.carry_out import is_complete
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import Executor, Results, carry_out_experiments, gathered
from isoloss.experiments.kept_portraits import kept_portrait, planned_languages, portrait_jobs
from isoloss.experiments.provenance import usable_cores
from isoloss.experiments.runner import Job, Outcome, run_jobs
from isoloss.pretraining.loop import usable_device
from isoloss.pretraining.run_folder import only_process_in
from isoloss.progress import Progress
from isoloss.report.experiment_json import result_as_json
from isoloss.report.site import Site, write_site

SITE = "site"


def reproduce_experiments(request: Request) -> int:
    """Carry out the request; 0 when all is well, 1 when some run failed and the rest was done."""
    if request.processes is not None and request.processes < 1:
        raise BadInput(f"--processes must be at least 1, not {request.processes}")
    usable_device(request.device)
    chosen = choice(request)
    if request.dry_run:
        print_cost(chosen.experiments, chosen.runs, request.scale, as_json=request.json)
        return 0
    execute = _executor(request)
    with only_process_in(request.folder), progress_display() as progress:
        results = carry_out_experiments(
            chosen.experiments,
            request.folder,
            execute,
            runs=chosen.runs,
            device=request.device,
            progress=progress,
        )
        overview, outcome = _write_site(request, chosen, results, execute, progress)
    one = len(chosen.experiments) == 1
    page = overview.with_stem(chosen.experiments[0].name) if one else overview
    failures = (*results.outcome.failures, *outcome.failures)
    if request.json:
        content = {
            "report": str(page),
            "experiments": [result_as_json(result) for result in results.experiments],
            "failures": [asdict(failure) for failure in failures],
            "notices": [asdict(notice) for notice in results.outcome.notices],
        }
        print(json.dumps(content, indent=2, allow_nan=False))
    print_verdicts(results, failures, page, request.scale)
    return 1 if failures else 0


def _executor(request: Request) -> Executor:
    # Several processes on one accelerator would only take its memory from one another.
    processes = request.processes or (usable_cores() if request.device == "cpu" else 1)

    def on_this_machine(jobs: Sequence[Job], progress: Progress) -> Outcome:
        return run_jobs(jobs, processes, progress)

    return on_this_machine


def _write_site(
    request: Request, chosen: Choice, results: Results, execute: Executor, progress: Progress
) -> tuple[Path, Outcome]:
    """The site of what was asked for and of what is complete from before; its first page."""
    names = [experiment.name for experiment in chosen.experiments]
    before = [e for e in chosen.suite if e.name not in names and _is_done(e, request.folder)]
    by_name = {r.experiment.name: r for r in (*results.experiments, *gathered(before, request.folder))}
    shown = tuple(by_name[e.name] for e in chosen.suite if e.name in by_name)
    plans = planned_languages(result.experiment for result in shown)
    outcome = execute(portrait_jobs(plans, request.folder), progress)
    portraits = {plan.digest: kept_portrait(plan, request.folder) for plan in plans}
    site = Site(
        scale=request.scale,
        output=request.folder,
        results=shown,
        portraits={digest: portrait for digest, portrait in portraits.items() if portrait},
        again=request.again,
        notices=tuple(f"{failure.job} failed: {failure.text}" for failure in outcome.failures),
    )
    return write_site(site, request.folder / SITE, progress), outcome


def _is_done(experiment: Experiment, output: Path) -> bool:
    return all(is_complete(run, output) for run in experiment.runs) and all(
        reference.file(output).exists() for reference in experiment.references
    )
