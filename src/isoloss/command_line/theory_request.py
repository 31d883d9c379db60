"""`isoloss theory`: checks the request, computes what is missing, shows the verdicts."""

import json
import math
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from isoloss.command_line.reproduce import ReproduceOptions, command_again
from isoloss.command_line.terminal import print_failures, progress_display, stdout_width
from isoloss.command_line.theory import TheoryOptions
from isoloss.command_line.theory_lines import (
    correction_lines,
    counted_findings,
    finding_lines,
    statement_lines,
)
from isoloss.device import usable_cores
from isoloss.executors.job import Job, Notice
from isoloss.executors.runner import run_jobs
from isoloss.experiments.design import Changes, other_experiments
from isoloss.experiments.experiment_result import Executor, is_done, was_planned
from isoloss.experiments.scale import scale_named
from isoloss.files import only_process_in
from isoloss.progress import Progress
from isoloss.report.site import THEORY, Site, write_whole_site
from isoloss.results.record import Record, Setting
from isoloss.results.verdict import Verdict
from isoloss.theory.finding import Entry, Statement
from isoloss.theory.suite import SUITE, PlannedStatement, named, statement_content

LONGEST_CURVE = 16
"""Numbers of strings on the curve up to --samples, each of which is simulated."""


def run_theory(request: TheoryOptions) -> int:
    """Carry out the request; returns 0 if all was computed, whatever the verdicts, 1 if some was not.

    Raises BadInput for a length that is impossible, before any work.
    """
    planned, whole = planned_statements(request), _whole(request)
    folder = whole.folder / THEORY
    for damage in filter(None, (statement.damage(folder) for statement in planned)):
        print(f"{damage}; it is computed again", file=sys.stderr)
    jobs = [
        Job(statement.name, partial(statement.carry_out, folder), statement.entry.seconds)
        for statement in planned
        if statement.saved(folder) is None
    ]
    execute = partial(run_jobs, processes=request.processes or usable_cores())
    with only_process_in(whole.folder), progress_display() as progress:
        outcome = execute(jobs, progress=progress)
        page, left_out = _on_the_site(whole, lambda jobs, at: execute(jobs, progress=at), progress)
    failures = (*outcome.failures, *left_out)
    if page is None:
        print(
            f"the experiments in {whole.folder} are unfinished, or not those of the scale {whole.scale}: the "
            "pages there stay as they are; running isoloss reproduce there again adds the statements",
            file=sys.stderr,
        )
    results = {
        statement.file(folder): found
        for statement in planned
        if (found := statement.saved(folder)) is not None
    }
    if request.json:
        print(results_as_json(results, failures))
    print_summary(results, failures, page)
    return 1 if failures else 0


def _on_the_site(
    whole: ReproduceOptions, execute: Executor, progress: Progress
) -> tuple[Path | None, Sequence[Notice]]:
    """Write the folder's site; its first page, None if experiments were begun and none is done; failures."""
    others = other_experiments(scale_named(whole.scale), Changes())
    begun = [name for name in others if was_planned(name, whole.folder)]
    if begun and not any(is_done(others[name](), whole.folder) for name in begun):
        return None, ()
    site = Site(whole.scale, whole.folder, (), partial(command_again, whole))
    page, outcome = write_whole_site(site, others, execute, progress)
    return page, outcome.failures


def _whole(request: TheoryOptions) -> ReproduceOptions:
    """The request to reproduce everything at this scale, whose folder and site the statements share."""
    return ReproduceOptions(("all",), scale="smoke" if request.smoke else "laptop", output=request.output)


def planned_statements(request: TheoryOptions) -> Sequence[PlannedStatement]:
    """The requested statements, with their settings."""
    entries = SUITE if request.name is None else named(request.name)
    return [PlannedStatement(entry, _settings(entry, request)) for entry in entries]


def _settings(entry: Entry, request: TheoryOptions) -> object:
    settings = entry.smoke if request.smoke else entry.full
    if request.length is None and request.samples is None:
        return settings
    samples = settings.samples if request.samples is None else request.samples
    length = settings.length if request.length is None else request.length
    return replace(settings, length=length, samples=samples, longest_curve=min(samples, LONGEST_CURVE))


def print_summary(results: Mapping[Path, Statement], failures: Sequence[Notice], page: Path | None) -> None:
    """See `summary_lines`; then where the results are, what failed, and the page, on stderr."""
    for line in summary_lines(list(results.values()), stdout_width()):
        print(line, file=sys.stderr)
    if len(results) == 1:
        print(f"results: {next(iter(results))}", file=sys.stderr)
    print_failures(failures)
    if page:
        print(f"page: {page}", file=sys.stderr)


def summary_lines(statements: Sequence[Statement], width: int) -> Iterator[str]:
    """Of one statement, all findings and corrections; of several, a line each and the findings that fail."""
    if not statements:
        return
    yield counted_findings(statements)
    if len(statements) == 1:
        (statement,) = statements
        yield from textwrap.wrap(f"{statement.name}: {statement.title}", width)
        for finding in statement.findings:
            yield from finding_lines(finding, width)
        yield from correction_lines(statement, width)
        return
    yield from statement_lines(statements, width)
    failing = [
        (statement.name, finding)
        for statement in statements
        for finding in statement.findings
        if finding.verdict != Verdict.SUPPORTED
    ]
    for name, finding in failing:
        yield f"{name}:"
        yield from finding_lines(finding, width)
    corrections = sum(len(statement.corrections) for statement in statements)
    if corrections:
        yield f"{corrections} corrections of the paper's text: on the page, and by `isoloss theory NAME`"


def results_as_json(results: Mapping[Path, Statement], failures: Sequence[Notice]) -> str:
    """Each finding as a record, and the statements in words with the files that contain everything."""
    content = {
        "records": [
            asdict(record) for statement in results.values() for record in statement_records(statement)
        ],
        "statements": [
            {
                name: value
                for name, value in statement_content(statement).items()
                if name not in ("panels", "settings")
            }
            | {"settings": dict(statement.settings), "file": str(path)}
            for path, statement in results.items()
        ],
        "failures": [asdict(failure) for failure in failures],
    }
    return json.dumps(content, indent=2, allow_nan=False)


def statement_records(statement: Statement) -> Iterator[Record]:
    """Each finding's computed number, with what it depends on; a number that is not finite has no record."""
    for finding in statement.findings:
        if not math.isfinite(finding.measured):
            continue
        judged: dict[str, Setting] = {
            "statement": statement.name,
            "relation": finding.relation,
            "predicted": finding.predicted,
            "tolerance": finding.tolerance,
            "verdict": str(finding.verdict),
        }
        yield Record(
            finding.name,
            finding.measured,
            finding.unit,
            finding.standard_error,
            finding.n,
            settings={**dict(statement.settings), **judged},
        )
