"""The output of `isoloss compare`: a table and conclusions for people, or JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from isoloss.command_line.terminal import broken, table_console
from isoloss.measurements.checkpoint_comparison import Comparison
from isoloss.measurements.compared_checkpoints import Checkpoint
from isoloss.measurements.verdicts import ACCURACIES, MAJORITY, PairVerdict, conclusions
from isoloss.results.estimate import Estimate
from isoloss.results.record import Record, as_text

TITLES = {
    "loss": "loss (nats)",
    "trace": "Fisher trace",
    "probe": "linear probe",
    "fine-tuning": "fine-tuned",
}
"""Of columns; others are called by their quantities' names."""


def print_comparison(
    comparison: Comparison, verdicts: Sequence[PairVerdict], notes: Sequence[str], report: Path
) -> None:
    """A row per checkpoint, the conclusions, notes on the numbers, and the location of the report."""
    table = Table()
    table.add_column("checkpoint", overflow="fold")
    cells = {
        name: [_cell(comparison, each, name) for each in comparison.checkpoints] for name in comparison.names
    }
    measured = [name for name, column in cells.items() if any(column)]
    for name in measured:
        table.add_column(TITLES.get(name, name.replace("_", " ")), justify="right")
    for place, checkpoint in enumerate(comparison.checkpoints):
        table.add_row(checkpoint.name, *(cells[name][place] for name in measured))
    if (majority := comparison.majority) is not None:
        table.add_row(MAJORITY, *(f"{majority.value:.4g}" if name in ACCURACIES else "" for name in measured))
    table_console().print(table)
    for line in [*conclusions(verdicts), *notes]:
        print(broken(line))
    print(f"page: {report}")


def print_json(
    comparison: Comparison, verdicts: Sequence[PairVerdict], notes: Sequence[str], report: Path
) -> None:
    """One JSON object: records, verdicts with their intervals, and descriptions of the checkpoints."""
    content = {
        "records": [asdict(record) for record in comparison.records],
        "verdicts": [verdict.as_json for verdict in verdicts],
        "conclusions": conclusions(verdicts),
        "models": [_checkpoint_as_json(checkpoint) for checkpoint in comparison.checkpoints],
        "notes": list(notes),
        "report": str(report),
    }
    print(json.dumps(content, ensure_ascii=False, allow_nan=False))


def _cell(comparison: Comparison, checkpoint: Checkpoint, name: str) -> str:
    found: Estimate | Record | None
    if name in ACCURACIES:
        found = comparison.estimate(checkpoint, name)
    else:
        measured = comparison.measurement(checkpoint, name)
        found = None if measured is None else measured.records[0]
    return "" if found is None else as_text(found.value, found.standard_error)


def _checkpoint_as_json(checkpoint: Checkpoint) -> dict[str, Any]:
    known = asdict(checkpoint) | {"prediction": checkpoint.prediction.name}
    del known["shapes"], known["tokens"]
    return known | {"padding": checkpoint.tokens.pad, "decoder_start": checkpoint.tokens.start}
