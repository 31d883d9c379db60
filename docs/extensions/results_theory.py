"""The section of docs/what-we-found.md on the paper's statements, from reference/theory.json."""

from isoloss.results.record import as_text
from isoloss.results.verdict import Verdict
from isoloss.theory.finding import Finding, Statement
from isoloss.theory.suite import shipped_statements


def theory_section() -> str:
    """The statements in a table, what does not hold, the paper's corrections, and all findings, folded."""
    shipped = shipped_statements()
    findings = [finding for statement in shipped.statements for finding in statement.findings]
    held = sum(finding.verdict == Verdict.SUPPORTED for finding in findings)
    return "\n".join(
        [
            "## Does the theory hold?\n",
            f"Mostly, with corrections: {held} of {len(findings)} findings hold. Of the rest, some are "
            "constants and proofs of the paper that have to be corrected, others are checkpoints too far "
            "from an exact fit. Each lemma and theorem is a program that can fail (`isoloss theory`). It "
            "holds (is supported) if the whole 95 % interval of a number agrees with the prediction to "
            "within a tolerance fixed beforehand.\n",
            "| statement | what is asked | findings that hold |",
            "|---|---|---|",
            *(_row(statement) for statement in shipped.statements),
            "\nWhat does not hold, or is undecided:\n",
            *(
                f"- `{statement.name}`: {_line(finding)}"
                for statement in shipped.statements
                for finding in statement.findings
                if finding.verdict != Verdict.SUPPORTED
            ),
            "\nWhere the paper's text and the arithmetic disagree:\n",
            *(f"- `{each.name}`: {said}" for each in shipped.statements for said in each.corrections),
            "\n<details>\n",
            f"<summary>All {len(findings)} findings</summary>\n",
            *(line for statement in shipped.statements for line in _findings(statement)),
            f"Computed at commit `{shipped.commit[:12]}`.\n",
            "</details>\n",
        ]
    )


def _row(statement: Statement) -> str:
    held = sum(finding.verdict == Verdict.SUPPORTED for finding in statement.findings)
    return f"| `{statement.name}` | {statement.title} | {held} of {len(statement.findings)} |"


def _findings(statement: Statement) -> list[str]:
    return [f"**{statement.title}** (`{statement.name}`)\n", *_listed(statement.findings), ""]


def _listed(findings: tuple[Finding, ...]) -> list[str]:
    return [f"- {_line(finding)}" for finding in findings]


def _line(finding: Finding) -> str:
    unit = f" {finding.unit}" if finding.unit else ""
    sentence = finding.sentence.replace("|", "∣")
    number = as_text(finding.measured, finding.standard_error or None)
    numbers = f"{number}{unit.replace('|', '∣')}, predicted {finding.prediction}"
    return f"{sentence} {numbers}: **{finding.verdict}**"
