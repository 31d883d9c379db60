"""The section of docs/what-we-found.md on the paper's statements, from reference/theory.json."""

from isoloss.theory.finding import Finding
from isoloss.theory.suite import shipped_statements

RELATIONS = {"equal to": "", "at least": "≥ ", "at most": "≤ "}


def theory_section() -> str:
    """Every statement as computed: its findings and verdicts, and corrections of the paper's text."""
    shipped = shipped_statements()
    rows = [
        f"| `{statement.name}` | {' | '.join(_cells(finding))} |"
        for statement in shipped.statements
        for finding in statement.findings
    ]
    corrections = [f"- `{each.name}`: {said}" for each in shipped.statements for said in each.corrections]
    return "\n".join(
        [
            "## Does the theory hold?\n",
            f"What `isoloss theory` gave at commit `{shipped.commit[:12]}`: each lemma and theorem as a "
            "program that can fail. A number is supported if its whole 95 % interval agrees with the "
            "prediction to within a tolerance fixed beforehand.\n",
            "| statement | finding | predicted | computed | verdict |",
            "|---|---|---|---|---|",
            *rows,
            "\nWhere the paper's text and the arithmetic disagree:\n",
            *corrections,
            "",
        ]
    )


def _cells(finding: Finding) -> tuple[str, ...]:
    error = f" ± {finding.standard_error:.2g}" if finding.standard_error else ""
    predicted = f"{RELATIONS[finding.relation]}{finding.predicted:.4g}"
    sentence = finding.sentence.replace("|", "∣")
    return sentence, predicted, f"{finding.measured:.4g}{error}", f"**{finding.verdict}**"
