"""The output of `isoloss compare`: a table and conclusions for people, or JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from isoloss.command_line.terminal import broken, print_table
from isoloss.measurements.checkpoint_comparison import Comparison
from isoloss.measurements.compared_checkpoints import Checkpoint
from isoloss.measurements.verdicts import ACCURACIES, MAJORITY, PairVerdict, conclusions

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
    columns = {
        name: [_cell(comparison, each, name) for each in comparison.checkpoints] for name in comparison.names
    }
    measured = {name: cells for name, cells in columns.items() if any(cells)}
    titles = ("checkpoint", *(TITLES.get(name, name.replace("_", " ")) for name in measured))
    rows = list(zip([each.name for each in comparison.checkpoints], *measured.values(), strict=True))
    if (majority := comparison.majority) is not None:
        rows.append((MAJORITY, *(majority.value if name in ACCURACIES else "" for name in measured)))
    print_table(titles, rows, left=("checkpoint",))
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


def _cell(comparison: Comparison, checkpoint: Checkpoint, name: str) -> object:
    if name in ACCURACIES:
        return comparison.estimate(checkpoint, name) or ""
    measured = comparison.measurement(checkpoint, name)
    return "" if measured is None else measured.records[0]


def _checkpoint_as_json(checkpoint: Checkpoint) -> dict[str, Any]:
    known = asdict(checkpoint) | {"prediction": checkpoint.prediction.name}
    del known["shapes"], known["tokens"]
    return known | {"padding": checkpoint.tokens.pad, "decoder_start": checkpoint.tokens.start}
