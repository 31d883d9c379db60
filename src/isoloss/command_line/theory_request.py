"""`isoloss theory`: checks what was asked for, computes what is missing, shows the verdicts."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from isoloss.command_line.options.reproduce import ReproduceOptions
from isoloss.command_line.options.theory import TheoryOptions
from isoloss.command_line.progress_display import progress_display
from isoloss.command_line.reproduction_request import ALL
from isoloss.command_line.theory_summary import print_summary, results_as_json
from isoloss.command_line.whole_site import THEORY, write_whole_site
from isoloss.errors import BadInput
from isoloss.experiments.provenance import usable_cores
from isoloss.experiments.runner import Job, run_jobs
from isoloss.experiments.scales import scale_named
from isoloss.experiments.suite import every_experiment
from isoloss.pretraining.run_folder import only_process_in
from isoloss.progress import Progress
from isoloss.theory.statement_file import PlannedStatement
from isoloss.theory.suite import SUITE, Entry, named

SIZED = "theorem-5.1"
LONGEST_CURVE = 16
"""Numbers of strings on the curve up to --samples, of which each is simulated."""


def run_theory(request: TheoryOptions) -> int:
    """Carry out the request; 0 when all was computed, whatever the verdicts, 1 when some was not.

    Raises BadInput for a name, a number or a combination that cannot be, before any work.
    """
    if request.processes is not None and request.processes < 1:
        raise BadInput(f"--processes must be at least 1, not {request.processes}")
    planned, whole = planned_statements(request), _whole(request)
    folder = whole.folder / THEORY
    jobs = [
        Job(statement.name, partial(_work, statement, folder), statement.entry.seconds)
        for statement in planned
        if statement.saved(folder) is None
    ]
    execute = partial(run_jobs, processes=request.processes or usable_cores())
    with only_process_in(whole.folder), progress_display() as progress:
        outcome = execute(jobs, progress=progress)
        suite = every_experiment(scale_named(whole.scale))
        page, _ = write_whole_site(whole, suite, (), lambda jobs, at: execute(jobs, progress=at), progress)
    results = {
        statement.file(folder): found
        for statement in planned
        if (found := statement.saved(folder)) is not None
    }
    if request.json:
        print(results_as_json(results, outcome.failures))
    print_summary(results, outcome.failures, page)
    return 1 if outcome.failures else 0


def _whole(request: TheoryOptions) -> ReproduceOptions:
    """Its part in the reproduction of everything, whose folder and site it shares."""
    return ReproduceOptions((ALL,), scale="smoke" if request.smoke else "laptop", output=request.output)


def planned_statements(request: TheoryOptions) -> Sequence[PlannedStatement]:
    """What is asked for, with its settings."""
    entries = SUITE if request.name is None else named(request.name)
    if (request.length is not None or request.samples is not None) and request.name != SIZED:
        raise BadInput(f"--length and --samples are for one statement: isoloss theory {SIZED}")
    return [PlannedStatement(entry, _settings(entry, request)) for entry in entries]


def _settings(entry: Entry, request: TheoryOptions) -> object:
    settings = entry.smoke if request.smoke else entry.full
    if request.length is None and request.samples is None:
        return settings
    samples = settings.samples if request.samples is None else request.samples
    length = settings.length if request.length is None else request.length
    return replace(settings, length=length, samples=samples, longest_curve=min(samples, LONGEST_CURVE))


def _work(statement: PlannedStatement, output: Path, progress: Progress) -> tuple[str, ...]:
    statement.carry_out(output, progress)
    return ()
