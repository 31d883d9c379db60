"""What `isoloss reproduce` prints at the end, or before it starts."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from isoloss.experiments.claims import Judgement
from isoloss.experiments.cost import A100, UTILISATION, hours, this_machine
from isoloss.experiments.figure_1 import FigureOne, FigureRun, run_operations
from isoloss.experiments.figure_1_result import FigureOneResult
from isoloss.languages.language import Language
from isoloss.models.transformers import parameter_count

_BYTES_A_NUMBER = 4
_COPIES_WITH_TRAINING_STATE = 2
"""Checkpoints of a run that keep the optimiser's two moments beside the weights."""


def print_summary(result: FigureOneResult, judgements: Sequence[Judgement], page: Path) -> None:
    """The claims with their verdicts, failures and the page's place, on stderr."""
    console = Console(stderr=True)
    table = Table(title=f"Figure 1, {result.figure.scale} scale, {result.seconds:,.0f} s")
    table.add_column("claim")
    table.add_column("measured", justify="right")
    table.add_column("interval", justify="right")
    table.add_column("verdict")
    for judged in judgements:
        effect = f"{judged.effect:.3g} {judged.claim.unit}".rstrip()
        interval = f"{judged.low:.3g} to {judged.high:.3g}"
        table.add_row(judged.claim.sentence, effect, interval, str(judged.verdict))
    console.print(table)
    for failure in result.outcome.failures:
        console.print(f"{failure.job} failed: {failure.text}", style="bold", markup=False, highlight=False)
    for notice in result.outcome.notices:
        console.print(f"{notice.job}: {notice.text}", markup=False, highlight=False)
    console.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


def result_as_json(result: FigureOneResult, judgements: Sequence[Judgement], page: Path) -> str:
    """Claims, checkpoints, language and failures as one JSON object."""
    claims = [
        {
            "name": judged.claim.name,
            "claim": judged.claim.sentence,
            "measure": judged.claim.measure,
            "unit": judged.claim.unit,
            "threshold": judged.claim.threshold,
            "above": judged.claim.above,
            "effect": _number(judged.effect),
            "low": _number(judged.low),
            "high": _number(judged.high),
            "confidence": judged.confidence,
            "runs": judged.runs,
            "verdict": str(judged.verdict),
        }
        for judged in judgements
    ]
    content = {
        "report": str(page),
        "claims": claims,
        "checkpoints": result.checkpoints.to_dicts(),
        "language": [asdict(record) for record in result.language.records],
        "failures": [asdict(failure) for failure in result.outcome.failures],
        "notices": [asdict(notice) for notice in result.outcome.notices],
    }
    return json.dumps(content, indent=2)


def print_cost(figure: FigureOne, runs: Sequence[FigureRun], language: Language, *, as_json: bool) -> None:
    """What the runs' pre-training costs, a line a size: operations, hours, gigabytes."""
    machine = this_machine()
    rows: list[dict[str, Any]] = []
    for width in sorted({run.width for run in runs}):
        alike = [run for run in runs if run.width == width]
        operations = sum(run_operations(run, language) for run in alike)
        parameters = parameter_count(
            alike[0].specification.architecture, len(language.vocabulary), language.maximum_length
        )
        copies = len(figure.checkpoint_steps) + 2 * _COPIES_WITH_TRAINING_STATE
        rows.append(
            {
                "width": width,
                "parameters": parameters,
                "runs": len(alike),
                "operations": operations,
                "hours_here": hours(operations, machine),
                "hours_a100": hours(operations, A100),
                "gigabytes": len(alike) * copies * parameters * _BYTES_A_NUMBER / 1e9,
            }
        )
    assumed = (
        f"{UTILISATION:.0%} of the matrix rate of {machine.name}, and of {A100.name}; measuring not counted"
    )
    if as_json:
        print(json.dumps({"sizes": rows, "assumed": assumed}, indent=2))
        return
    table = Table(title=f"Figure 1, {figure.scale} scale: cost of pre-training", caption=assumed)
    for name in ("width", "parameters", "runs", "operations", "hours here", "hours on A100", "GB on disk"):
        table.add_column(name, justify="right")
    for row in [*rows, _total(rows)]:
        costs = (row["hours_here"], row["hours_a100"], row["gigabytes"])
        millions = f"{row['parameters'] / 1e6:.3g} M" if row["parameters"] else ""
        numbers = (f"{row['operations']:.2e}", *map(_three_digits, costs))
        table.add_row(str(row["width"]), millions, str(row["runs"]), *numbers)
    Console().print(table)


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _total(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    summed = ("runs", "operations", "hours_here", "hours_a100", "gigabytes")
    return {"width": "all", "parameters": 0, **{name: sum(row[name] for row in rows) for name in summed}}


def _number(value: float) -> float | None:
    return value if value == value else None
