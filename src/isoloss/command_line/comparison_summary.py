"""What `isoloss compare` prints: a table and sentences for people, or JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from isoloss.command_line.console import table_console
from isoloss.command_line.value_with_error import value_with_error
from isoloss.measurements.checkpoint_comparison import Comparison
from isoloss.measurements.checkpoint_measurements import FINE_TUNING, LOSS, PROBE, TRACE
from isoloss.measurements.checkpoint_verdicts import PairVerdict
from isoloss.measurements.compared_checkpoints import Checkpoint
from isoloss.report.comparison_page import pair_sentences

TITLES = {LOSS: "loss (nats)", TRACE: "Fisher trace", PROBE: "linear probe", FINE_TUNING: "fine-tuned"}


def print_comparison(
    comparison: Comparison, verdicts: Sequence[PairVerdict], same_loss: float, report: Path
) -> None:
    """A row a checkpoint, what may be said of each pair, and where the report is."""
    console = table_console()
    table = Table()
    table.add_column("checkpoint", overflow="fold")
    cells = {name: [_cell(comparison, each, name) for each in comparison.checkpoints] for name in TITLES}
    measured = [name for name, column in cells.items() if any(column)]
    for name in measured:
        table.add_column(TITLES[name], justify="right")
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
    """One JSON object: records, verdicts with their intervals, and what the checkpoints are."""
    content = {
        "records": [asdict(record) for record in comparison.records],
        "verdicts": [_verdict_as_json(verdict) for verdict in verdicts],
        "models": [_checkpoint_as_json(checkpoint) for checkpoint in comparison.checkpoints],
        "notes": list(notes),
        "report": str(report),
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def _cell(comparison: Comparison, checkpoint: Checkpoint, name: str) -> str:
    if name in (PROBE, FINE_TUNING):
        accuracy = comparison.estimate(checkpoint, name)
        return "" if accuracy is None else value_with_error(accuracy.value, accuracy.standard_error)
    found = comparison.measurement(checkpoint, name)
    if found is None:
        return ""
    return value_with_error(found.records[0].value, found.records[0].standard_error)


def _of_majority(name: str, accuracy: float) -> str:
    return f"{accuracy:.4g}" if name in (PROBE, FINE_TUNING) else ""


def _verdict_as_json(verdict: PairVerdict) -> dict[str, Any]:
    known = asdict(verdict)
    if verdict.difference is not None:
        del known["difference"]["largest"]
    # An interval without ends, or of what is not asked, is no number of JSON's.
    for end in ("low", "high"):
        if not abs(known[end]) < float("inf"):
            known[end] = None
    return known


def _checkpoint_as_json(checkpoint: Checkpoint) -> dict[str, Any]:
    known = asdict(checkpoint)
    del known["shapes"]
    return known
