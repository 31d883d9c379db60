"""What `isoloss reproduce` prints at its end: every claim with its verdict, and what went wrong."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from isoloss.experiments.experiment_result import Results
from isoloss.experiments.runner import Notice
from isoloss.report.number import ABSENT
from isoloss.report.overview import counts
from isoloss.report.site import spoken


def print_verdicts(results: Results, failures: Sequence[Notice], page: Path, scale: str) -> None:
    """The claims by experiment, the counts of verdicts, failures, and the page's place, on stderr."""
    console = Console(stderr=True)
    for result in results.experiments:
        if result.judgements:
            title = f"{spoken(result.experiment.name)}, {scale} scale"
            table = Table(title=title, title_justify="left")
            table.add_column("claim")
            table.add_column("measured", justify="right")
            table.add_column("interval", justify="right")
            table.add_column("verdict")
            for judged in result.judgements:
                effect = f"{_digits(judged.effect)} {judged.claim.unit}".rstrip()
                interval = f"{_digits(judged.low)} to {_digits(judged.high)}"
                table.add_row(judged.claim.sentence, effect, interval, str(judged.verdict))
            console.print(table)
    verdicts = [judged.verdict for result in results.experiments for judged in result.judgements]
    summary = ", ".join(f"{number} {verdict}" for verdict, number in counts(verdicts).items())
    console.print(f"{summary}; {results.seconds:,.0f} s", highlight=False)
    for failure in failures:
        console.print(f"{failure.job} failed: {failure.text}", style="bold", markup=False, highlight=False)
    for notice in results.outcome.notices:
        console.print(f"{notice.job}: {notice.text}", markup=False, highlight=False)
    console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


def _digits(value: float) -> str:
    return f"{value:.3g}" if value == value else ABSENT
