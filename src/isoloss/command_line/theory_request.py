"""`isoloss theory`: checks the request, computes what is missing, shows the verdicts."""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from isoloss.command_line.reproduce import ReproduceOptions, command_again
from isoloss.command_line.terminal import print_failures, progress_display
from isoloss.command_line.theory import TheoryOptions
from isoloss.device import usable_cores
from isoloss.executors.job import Job, Notice
from isoloss.executors.runner import run_jobs
from isoloss.experiments.design import Changes, other_experiments
from isoloss.experiments.experiment_result import Executor, is_done, was_planned
from isoloss.experiments.scale import scale_named
from isoloss.files import only_process_in
from isoloss.progress import Progress
from isoloss.report.site import THEORY, Site, write_whole_site
from isoloss.results.record import Record, Setting, as_text
from isoloss.results.verdict import Verdict
from isoloss.theory.finding import Entry, Finding, Statement
from isoloss.theory.suite import SUITE, PlannedStatement, named, statement_content

_STYLES = {Verdict.SUPPORTED: "green", Verdict.NOT_SUPPORTED: "red", Verdict.INCONCLUSIVE: "yellow"}
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
    """Every finding with its verdict, the corrections, what failed, and the site's page, on stderr."""
    console = Console(stderr=True)
    for path, statement in results.items():
        table = Table(title=escape(f"{statement.name}: {statement.title}"), title_justify="left")
        table.add_column("finding")
        table.add_column("predicted", justify="right")
        table.add_column("computed", justify="right")
        table.add_column("verdict", no_wrap=True)
        for finding in statement.findings:
            table.add_row(escape(finding.sentence), *_numbers(finding), _verdict(finding))
        console.print(table)
        for correction in statement.corrections:
            console.print(f"correction: {correction}", markup=False, highlight=False)
        console.print(f"results: {path}\n", markup=False, highlight=False, soft_wrap=True)
    print_failures(failures)
    if page:
        console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


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


def _numbers(finding: Finding) -> tuple[str, str]:
    relation = {"equal to": "", "at least": "≥ ", "at most": "≤ "}[finding.relation]
    exact = f"{finding.measured:.6g}"
    measured = as_text(finding.measured, finding.standard_error) if finding.standard_error else exact
    paper = f" (paper: {finding.paper})" if finding.paper else ""
    return f"{relation}{finding.predicted:.6g}{escape(paper)}", measured


def _verdict(finding: Finding) -> str:
    return f"[{_STYLES[finding.verdict]}]{finding.verdict}[/]"
