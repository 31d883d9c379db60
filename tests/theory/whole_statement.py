"""What holds for every statement at its smoke size, whatever it says."""

from collections.abc import Iterable

from isoloss.results.verdict import Verdict
from isoloss.theory.finding import Entry, Finding, Statement


def verdicts(findings: Iterable[Finding]) -> dict[str, Verdict]:
    """By name, in order."""
    return {finding.name: finding.verdict for finding in findings}


def smoke_statement(entry: Entry) -> Statement:
    """The statement, after checking its progress and that nothing a page shows of it is missing."""
    seen: list[float] = []

    def report(task: str, completed: float, total: float, message: str = "") -> None:
        seen.append(completed / total)

    statement = entry.compute(entry.smoke, report)
    assert statement.name == entry.name
    assert min(seen) >= 0
    assert max(seen) <= 1
    assert len({finding.name for finding in statement.findings}) == len(statement.findings)
    for panel in statement.panels:
        assert len(panel.data)
    assert dict(statement.settings)
    return statement
