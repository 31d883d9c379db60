"""`isoloss enlarge`: a checkpoint tiled into a larger one that computes the same scores."""

import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import tyro
from rich.console import Console
from rich.table import Table

from isoloss.command_line.progress_display import progress_display

if TYPE_CHECKING:
    from isoloss.models.enlarging.checkpoint import EnlargedCheckpoint


def enlarge(
    checkpoint: tyro.conf.Positional[Path],
    out: tyro.conf.Positional[Path],
    /,
    width: int = 1,
    layers: int = 0,
    paper: bool = False,
    json: bool = False,
) -> None:
    """Write a wider and deeper checkpoint that computes the same scores (paper B.4).

    Example: isoloss enlarge runs/bert --width 4 --layers 2 runs/bert-large

    Args:
        checkpoint: The folder of a BertForMaskedLM or RobertaPreLayerNormForMaskedLM.
        out: The folder to write; it must not exist.
        width: Multiply width, heads and feed-forward units by this integer; heads keep their size.
        layers: Add this many layers.
        paper: Follow B.4 to the letter, which changes the scores: see docs/enlarging.md.
        json: Print JSON.
    """
    # Models take seconds to import, which the other commands need not wait for.
    from isoloss.models.enlarging.checkpoint import enlarge_checkpoint
    from isoloss.models.enlarging.enlargement import Enlargement
    from isoloss.models.enlarging.forms import exact_form, paper_form

    by = Enlargement(width, layers)
    with progress_display() as progress:
        enlarged = enlarge_checkpoint(checkpoint, out, by, paper_form if paper else exact_form, progress)
    if json:
        print(json_format.dumps({"out": str(out), **asdict(enlarged)}, allow_nan=False))
    else:
        _show(enlarged, out)


def _show(enlarged: "EnlargedCheckpoint", out: Path) -> None:
    table = Table(
        caption=f"{enlarged.dtype} weights; scores of random sentences differ by at most "
        f"{enlarged.difference:.2g}, the largest is {enlarged.largest_score:.2g}"
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
    console = Console()
    console.print(table)
    console.print(f"written to {out}", markup=False)
