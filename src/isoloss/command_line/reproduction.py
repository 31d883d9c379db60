"""`isoloss reproduce`: checks what was asked for, carries it out, writes the site, tells the verdicts."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from isoloss.command_line.cost_table import cost_as_json, cost_rows, print_cost
from isoloss.command_line.executor import executor
from isoloss.command_line.options.reproduce import ReproduceOptions
from isoloss.command_line.progress_display import progress_display
from isoloss.command_line.reproduction_request import Choice, choice
from isoloss.command_line.settings_table import print_settings, settings_as_rows
from isoloss.command_line.verdict_table import print_verdicts
from isoloss.command_line.whole_site import write_whole_site
from isoloss.experiments.carry_out import is_records_alone
from isoloss.experiments.cost import this_machine
from isoloss.experiments.experiment_jobs import shared
from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.paper_settings.every_setting import settings_of
from isoloss.experiments.scales import paper
from isoloss.pretraining.run_folder import only_process_in
from isoloss.report.offered_files import result_as_json


def reproduce_experiments(request: ReproduceOptions) -> int:
    """Carry out the request; 0 when all is well, 1 when some run failed and the rest was done."""
    execute = executor(request)
    chosen = choice(request)
    if request.dry_run:
        with progress_display() as progress:
            machine = this_machine(request.device if request.on == "local" else "cpu")
            measured_on = request.device if request.measure else None
            rows = cost_rows(chosen.experiments, chosen.runs, machine, measured_on, progress)
        # Only that scale is meant to be the paper's.
        groups = settings_of(paper(), chosen.experiments) if request.scale == "paper" else ()
        if request.json:
            told = {**cost_as_json(rows, machine), "settings": settings_as_rows(groups)}
            print(json.dumps(told, indent=2))
            return 0
        print_cost(rows, machine, request.scale)
        if groups:
            print_settings(groups)
        return 0
    _tell_of_records_alone(chosen, request.folder)
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


def _tell_of_records_alone(chosen: Choice, folder: Path) -> None:
    alone = sum(is_records_alone(run, folder) for run in shared(chosen.runs))
    if alone:
        print(
            f"{alone} of the runs are there as records alone, unpacked without checkpoints: they are not "
            "computed again",
            file=sys.stderr,
        )
