"""Verdicts on claims and statements as lines of text, never wider than asked; and of statements, as JSON."""

import json
import math
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from isoloss.command_line.plain_table import GAP, without_middle
from isoloss.command_line.terminal import print_failures, stdout_width
from isoloss.executors.job import Notice
from isoloss.experiments.claims import Judgement, Role
from isoloss.experiments.experiment_result import ExperimentResult
from isoloss.experiments.shipped_results import BesideShipped
from isoloss.report.page import several, spoken
from isoloss.results.record import Record, Setting, as_text, digits_that_tell, in_digits
from isoloss.results.verdict import Verdict, counts
from isoloss.theory.finding import Finding, Statement
from isoloss.theory.suite import statement_content

ROLES: tuple[Role, ...] = ("effect", "premise", "withdrawn")
DOUBTFUL = (Verdict.SUPPORTED, Verdict.INCONCLUSIVE, Verdict.NOT_SUPPORTED)
"""From least to most."""
WITHDRAWN, INDENT = "–", "  "
SHORTEST = 16
"""Characters of a claim's name that are always shown."""


def counted(judgements: Sequence[Judgement]) -> list[str]:
    """How many effects, and how many premises, got each verdict: a line each, with the verdict's mark."""
    lines = []
    for role in ("effect", "premise"):
        if found := [judged.verdict for judged in judgements if judged.claim.role == role]:
            lines.append(f"{several(len(found), role)}: {_numbers_of(found)}")
    return lines


def _numbers_of(verdicts: Sequence[Verdict]) -> str:
    return ", ".join(f"{number} {verdict.mark} {verdict}" for verdict, number in counts(verdicts).items())


def claim_lines(
    result: ExperimentResult, beside: BesideShipped | None, width: int | None, *, judged: bool
) -> list[str]:
    """The experiment's title and a line a claim, each at most `width` characters (None: however long).

    Where a line does not fit, its unit and what would decide it are left out, then the verdict is said in
    brief, then the middle of the name is left out. `judged` is false where the scale decides nothing.
    """
    shown = [each for role in ROLES for each in result.judgements if each.claim.role == role]
    if not shown:
        return []
    said = [_verdict_in_words(each, beside) if judged else ("", "") for each in shown]
    numbers, verdicts = _in_a_column(map(_number, shown)), _in_a_column(whole for whole, _ in said)
    longest = max(len(each.claim.name) for each in shown)
    if width is not None and _room(width, numbers[0], verdicts[0]) < longest:
        verdicts = _in_a_column(brief for _, brief in said)
        longest = min(longest, max(SHORTEST, _room(width, numbers[0], verdicts[0])))
    title = f"{spoken(result.experiment.name)}: {result.experiment.title}"
    lines = [title] if width is None else textwrap.wrap(title, width, subsequent_indent=INDENT)
    for each, number, verdict in zip(shown, numbers, verdicts, strict=True):
        mark = WITHDRAWN if each.claim.withdrawn else each.verdict.mark if judged else " "
        name = without_middle(each.claim.name, longest)
        line = f"{INDENT}{mark} {name:<{longest}}{GAP}{number}" + (f"{GAP}{verdict}" if verdict else "")
        seeds = each.seeds_needed if judged and not each.claim.withdrawn else None
        for more in (each.claim.reading.unit, f"{seeds} seeds would decide" if seeds else each.why_undefined):
            if more and (width is None or len(f"{line}{GAP}{more}") <= width):
                line = f"{line}{GAP}{more}"
        lines.append(_cut(line.rstrip(), width))
    return lines


def _in_a_column(texts: Iterable[str]) -> list[str]:
    """All as wide as the widest."""
    known = list(texts)
    return [text.ljust(max(map(len, known))) for text in known]


def _room(width: int, number: str, verdict: str) -> int:
    """The characters that a number and a verdict leave to a name."""
    return width - len(f"{INDENT}✓ {GAP}{number}") - (len(f"{GAP}{verdict}") if verdict else 0)


def _number(judged: Judgement) -> str:
    read = judged.claim.reading
    numbers = [read.factor * number for number in (judged.effect, judged.low, judged.high)]
    digits = digits_that_tell(*numbers[1:])
    value, low, high = (in_digits(number, digits) for number in numbers)
    return f"{value}{read.sign} ({f'{low} to {high}' if math.isfinite(judged.low) else 'no interval'})"


def _verdict_in_words(judged: Judgement, beside: BesideShipped | None) -> tuple[str, str]:
    """What is said of the verdict, and the same in ten characters: the mark before the name tells it."""
    if judged.claim.withdrawn:
        return "withdrawn", "withdrawn"
    claim = None if beside is None else beside.shipped.claims.get(judged.claim.name)
    if claim is None:
        return str(judged.verdict), ""
    if claim.verdict == judged.verdict:
        return "same verdict as shipped", "as shipped"
    return f"shipped: {claim.verdict}", f"shipped: {claim.verdict.mark}"


def _cut(text: str, width: int | None) -> str:
    return text if width is None or len(text) <= width else f"{text[: width - 1]}…"


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
        for correction in statement.corrections:
            yield from textwrap.wrap(
                f"Correction: {correction}", width, initial_indent=INDENT, subsequent_indent=INDENT
            )
        return
    yield from statement_lines(statements, width)
    for statement in statements:
        for finding in statement.findings:
            if finding.verdict != Verdict.SUPPORTED:
                yield f"{statement.name}:"
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


def counted_findings(statements: Sequence[Statement]) -> str:
    """How many findings of how many statements got each verdict.

    >>> from isoloss.theory.suite import shipped_statements
    >>> counted_findings(shipped_statements().statements[:1])
    '1 statement, 16 findings: 14 ✓ supported, 1 ✗ not supported, 1 ? inconclusive'
    """
    findings = [finding for statement in statements for finding in statement.findings]
    numbers = _numbers_of([finding.verdict for finding in findings])
    return f"{several(len(statements), 'statement')}, {several(len(findings), 'finding')}: {numbers}"


def statement_lines(statements: Sequence[Statement], width: int) -> Iterator[str]:
    """A line a statement, its title cut at `width`: how many of its findings are supported."""
    longest = max((len(statement.name) for statement in statements), default=0)
    for statement in statements:
        verdicts = [finding.verdict for finding in statement.findings]
        held = sum(verdict == Verdict.SUPPORTED for verdict in verdicts)
        mark = max(verdicts, key=DOUBTFUL.index).mark if verdicts else " "
        line = f"{INDENT}{mark} {statement.name:<{longest}}{GAP}{held:>2} of {len(verdicts):>2}{GAP}"
        yield _cut(line + statement.title, width)


def finding_lines(finding: Finding, width: int) -> Iterator[str]:
    """The finding's sentence, and its number beside what was predicted; broken at `width` characters."""
    start = f"{INDENT}{finding.verdict.mark} "
    inside = " " * len(start)
    yield from textwrap.wrap(finding.sentence, width, initial_indent=start, subsequent_indent=inside)
    yield from textwrap.wrap(in_numbers(finding), width, initial_indent=inside, subsequent_indent=inside)


def in_numbers(finding: Finding) -> str:
    """What was computed, with its standard error, and what was predicted.

    >>> from isoloss.theory.suite import shipped_statements
    >>> in_numbers(shipped_statements().statements[0].findings[-1])
    'computed 0.210 ± 0.067; predicted 0.5 (tolerance 0.1)'
    """
    measured = as_text(finding.measured, finding.standard_error or None)
    unit = f" {finding.unit}" if finding.unit else ""
    allowed = f" (tolerance {finding.tolerance:.2g})" if finding.tolerance else ""
    paper = f"; the paper: {finding.paper}" if finding.paper else ""
    return f"computed {measured}{unit}; predicted {finding.prediction}{allowed}{paper}"
