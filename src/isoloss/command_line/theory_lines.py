"""What `isoloss theory` found as lines of text: counts, a line a statement, and findings in full."""

import textwrap
from collections.abc import Iterator, Sequence

from isoloss.command_line.verdict_lines import GAP, INDENT, MARKS
from isoloss.report.overview import counts
from isoloss.results.record import as_text
from isoloss.results.verdict import Verdict
from isoloss.theory.finding import Finding, Statement

RELATIONS = {"equal to": "", "at least": "≥ ", "at most": "≤ "}


def counted_findings(statements: Sequence[Statement]) -> str:
    """How many findings of how many statements got each verdict.

    >>> from isoloss.theory.suite import shipped_statements
    >>> counted_findings(shipped_statements().statements[:1])
    '1 statement, 16 findings: 14 ✓ supported, 1 ✗ not supported, 1 ? inconclusive'
    """
    findings = [finding for statement in statements for finding in statement.findings]
    found = counts([finding.verdict for finding in findings])
    told = ", ".join(f"{number} {MARKS[verdict]} {verdict}" for verdict, number in found.items())
    return f"{_several(len(statements), 'statement')}, {_several(len(findings), 'finding')}: {told}"


def statement_lines(statements: Sequence[Statement], width: int) -> Iterator[str]:
    """A line a statement, its title cut at `width`: how many of its findings are supported."""
    longest = max((len(statement.name) for statement in statements), default=0)
    for statement in statements:
        verdicts = [finding.verdict for finding in statement.findings]
        held = sum(verdict == Verdict.SUPPORTED for verdict in verdicts)
        mark = MARKS[max(verdicts, key=_doubt)] if verdicts else " "
        line = f"{INDENT}{mark} {statement.name:<{longest}}{GAP}{held:>2} of {len(verdicts):>2}{GAP}"
        line += statement.title
        yield line if len(line) <= width else f"{line[: width - 1]}…"


def finding_lines(finding: Finding, width: int) -> Iterator[str]:
    """The finding's sentence, and its number beside what was predicted; broken at `width` characters."""
    start = f"{INDENT}{MARKS[finding.verdict]} "
    inside = " " * len(start)
    yield from textwrap.wrap(finding.sentence, width, initial_indent=start, subsequent_indent=inside)
    yield from textwrap.wrap(in_numbers(finding), width, initial_indent=inside, subsequent_indent=inside)


def in_numbers(finding: Finding) -> str:
    """What was computed, with its standard error, and what was predicted.

    >>> from isoloss.theory.suite import shipped_statements
    >>> in_numbers(shipped_statements().statements[0].findings[-1])
    'computed 0.210 ± 0.067; predicted 0.5 (tolerance 0.1)'
    """
    measured = f"{finding.measured:.4g}"
    if finding.standard_error:
        measured = as_text(finding.measured, finding.standard_error)
    unit = f" {finding.unit}" if finding.unit else ""
    allowed = f" (tolerance {finding.tolerance:.2g})" if finding.tolerance else ""
    paper = f"; the paper: {finding.paper}" if finding.paper else ""
    predicted = f"{RELATIONS[finding.relation]}{finding.predicted:.4g}"
    return f"computed {measured}{unit}; predicted {predicted}{allowed}{paper}"


def correction_lines(statement: Statement, width: int) -> Iterator[str]:
    """Where the paper's text and the arithmetic disagree, broken at `width` characters."""
    for correction in statement.corrections:
        yield from textwrap.wrap(
            f"Correction: {correction}", width, initial_indent=INDENT, subsequent_indent=INDENT
        )


def _doubt(verdict: Verdict) -> int:
    return (Verdict.SUPPORTED, Verdict.INCONCLUSIVE, Verdict.NOT_SUPPORTED).index(verdict)


def _several(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"
