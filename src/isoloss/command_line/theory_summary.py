"""What `isoloss theory` prints at the end: verdicts for people, records for programs."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from isoloss.experiments.runner import Notice
from isoloss.measurements.record import Record, Setting
from isoloss.theory.finding import Finding, Statement
from isoloss.theory.statement_file import statement_content
from isoloss.verdict import Verdict

_STYLES = {Verdict.SUPPORTED: "green", Verdict.NOT_SUPPORTED: "red", Verdict.INCONCLUSIVE: "yellow"}


def print_summary(results: Mapping[Path, Statement], failures: Sequence[Notice], page: Path) -> None:
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
    for failure in failures:
        console.print(f"{failure.job} failed: {failure.text}", style="bold", markup=False, highlight=False)
    console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


def results_as_json(results: Mapping[Path, Statement], failures: Sequence[Notice]) -> str:
    """Each finding as a record, and the statements in words with the files that hold everything."""
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
        told: dict[str, Setting] = {
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
            settings={**dict(statement.settings), **told},
        )


def _numbers(finding: Finding) -> tuple[str, str]:
    relation = {"equal to": "", "at least": "≥ ", "at most": "≤ "}[finding.relation]
    error = f" ± {finding.standard_error:.2g}" if finding.standard_error else ""
    paper = f" (paper: {finding.paper})" if finding.paper else ""
    return f"{relation}{finding.predicted:.6g}{escape(paper)}", f"{finding.measured:.6g}{error}"


def _verdict(finding: Finding) -> str:
    return f"[{_STYLES[finding.verdict]}]{finding.verdict}[/]"
