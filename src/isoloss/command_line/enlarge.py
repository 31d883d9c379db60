"""`isoloss enlarge`: a checkpoint tiled into a larger one that computes the same scores."""

import json
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from isoloss.command_line.options.checkpoints import EnlargeOptions
from isoloss.command_line.terminal import progress_display, table_console
from isoloss.models.enlarging.checkpoint import EnlargedCheckpoint, enlarge_checkpoint
from isoloss.models.enlarging.transformer import Enlargement, exact_form, paper_form


def enlarge(options: EnlargeOptions) -> None:
    """Write a wider and deeper checkpoint that computes the same scores (paper B.4)."""
    by = Enlargement(options.width, options.layers)
    with progress_display() as progress:
        enlarged = enlarge_checkpoint(
            options.checkpoint,
            options.out,
            by,
            paper_form if options.paper else exact_form,
            progress,
            options.most_parameters,
        )
    if options.json:
        print(json.dumps({"out": str(options.out), **asdict(enlarged)}, allow_nan=False))
    else:
        _show(enlarged, options.out)


def _show(enlarged: EnlargedCheckpoint, out: Path) -> None:
    table = Table(
        caption=(
            f"{enlarged.dtype} weights; scores of random sentences differ by at most "
            f"{enlarged.difference:.2g}, the largest score is {enlarged.largest_score:.2g}"
        )
    )
    for heading in ("", "width", "heads", "layers", "inner width", "parameters"):
        table.add_column(heading, justify="right")
    rows = {
        "before": (enlarged.small, enlarged.small_parameters),
        "after": (enlarged.large, enlarged.large_parameters),
    }
    for name, (shape, parameters) in rows.items():
        numbers = (shape.width, shape.heads, shape.layers, shape.inner_width, parameters)
        table.add_row(name, *(f"{number:,}" for number in numbers))
    console = table_console()
    console.print(table)
    console.print(f"written to {out}", markup=False)
