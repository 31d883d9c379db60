"""The output of `isoloss compare`: a table for people, or JSON."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from isoloss.command_line.terminal import table_console
from isoloss.measurements.checkpoint_comparison import Comparison
from isoloss.measurements.compared_checkpoints import ACCURACIES, FINE_TUNING, LOSS, PROBE, TRACE, Checkpoint
from isoloss.measurements.verdicts import PairVerdict
from isoloss.report.comparison_page import pair_sentences
from isoloss.results.record import as_text

TITLES = {LOSS: "loss (nats)", TRACE: "Fisher trace", PROBE: "linear probe", FINE_TUNING: "fine-tuned"}


def print_comparison(
    comparison: Comparison, verdicts: Sequence[PairVerdict], same_loss: float, report: Path
) -> None:
    """A row per checkpoint, the conclusions for each pair, and the location of the report."""
    console = table_console()
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
        table.add_row("the majority", *(_of_majority(name, majority.value) for name in measured))
    console.print(table)
    for line in [*pair_sentences(verdicts, same_loss), f"report: {report}"]:
        console.print(line, markup=False, soft_wrap=True)


def comparison_as_json(
    comparison: Comparison, verdicts: Sequence[PairVerdict], notes: Sequence[str], report: Path
) -> str:
    """One JSON object: records, verdicts with their intervals, and descriptions of the checkpoints."""
    content = {
        "records": [asdict(record) for record in comparison.records],
        "verdicts": [_verdict_as_json(verdict) for verdict in verdicts],
        "models": [_checkpoint_as_json(checkpoint) for checkpoint in comparison.checkpoints],
        "notes": list(notes),
        "report": str(report),
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def _cell(comparison: Comparison, checkpoint: Checkpoint, name: str) -> str:
    if name in ACCURACIES:
        accuracy = comparison.estimate(checkpoint, name)
        return "" if accuracy is None else as_text(accuracy.value, accuracy.standard_error)
    found = comparison.measurement(checkpoint, name)
    if found is None:
        return ""
    return as_text(found.records[0].value, found.records[0].standard_error)


def _of_majority(name: str, accuracy: float) -> str:
    return f"{accuracy:.4g}" if name in ACCURACIES else ""


def _verdict_as_json(verdict: PairVerdict) -> dict[str, Any]:
    known = asdict(verdict)
    for end in ("low", "high"):
        if math.isnan(known[end]):  # of a question not asked, or that nothing bounds
            known[end] = None
    return known


def _checkpoint_as_json(checkpoint: Checkpoint) -> dict[str, Any]:
    known = asdict(checkpoint)
    del known["shapes"]
    return known
