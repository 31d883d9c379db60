"""What `isoloss reproduce` prints at its end: every claim with its verdict, and what went wrong."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from isoloss.experiments.claims import Judgement, Kind
from isoloss.experiments.experiment_result import Results
from isoloss.experiments.runner import Notice
from isoloss.report.number import ABSENT
from isoloss.report.overview import counts, verdicts_on
from isoloss.report.site import spoken

KINDS: tuple[Kind, ...] = ("premise", "effect")


def print_verdicts(results: Results, failures: Sequence[Notice], page: Path, scale: str) -> None:
    """The claims by experiment, the counts of verdicts, failures, and the page's place, on stderr."""
    console = Console(stderr=True)
    for result in results.experiments:
        for kind in KINDS:
            if of_kind := [judged for judged in result.judgements if judged.claim.kind == kind]:
                title = f"{spoken(result.experiment.name)}, {scale} scale"
                console.print(_table(title, kind, of_kind))
    everything = [judged for result in results.experiments for judged in result.judgements]
    for kind in KINDS:
        found = counts(verdicts_on(kind, everything))
        told = ", ".join(f"{number} {verdict}" for verdict, number in found.items())
        console.print(f"{kind}s: {told}", highlight=False)
    console.print(f"{results.seconds:,.0f} s", highlight=False)
    for failure in failures:
        console.print(f"{failure.job} failed: {failure.text}", style="bold", markup=False, highlight=False)
    for notice in results.outcome.notices:
        console.print(f"{notice.job}: {notice.text}", markup=False, highlight=False)
    console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


def _table(title: str, kind: Kind, judgements: Sequence[Judgement]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(kind)
    table.add_column("measured", justify="right")
    table.add_column("interval", justify="right")
    table.add_column("claimed", justify="right")
    table.add_column("verdict")
    for judged in judgements:
        effect = f"{_digits(judged.effect)} {judged.claim.unit}".rstrip()
        interval = f"{_digits(judged.low)} to {_digits(judged.high)}"
        decided_by = f" ({judged.seeds_needed} seeds would decide)" if judged.seeds_needed else ""
        verdict = f"{judged.verdict}{decided_by}"
        table.add_row(judged.claim.sentence, effect, interval, str(judged.claim.claimed), verdict)
    return table


def _digits(value: float) -> str:
    return f"{value:.3g}" if value == value else ABSENT
