"""`isoloss reproduce`: checks what was asked for, carries it out, writes the site, tells the verdicts."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from isoloss.command_line.cost_table import print_cost
from isoloss.command_line.progress_display import progress_display
from isoloss.command_line.reproduction_request import Request, choice
from isoloss.command_line.verdict_table import print_verdicts
from isoloss.command_line.whole_site import write_whole_site
from isoloss.errors import BadInput
from isoloss.experiments.experiment_result import Executor, carry_out_experiments
from isoloss.experiments.provenance import usable_cores
from isoloss.experiments.runner import Job, Outcome, run_jobs
from isoloss.pretraining.loop import usable_device
from isoloss.pretraining.run_folder import only_process_in
from isoloss.progress import Progress
from isoloss.report.experiment_json import result_as_json


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
        overview, outcome = write_whole_site(request, chosen.suite, results.experiments, execute, progress)
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
