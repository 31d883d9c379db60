"""`isoloss enlarge`: a checkpoint tiled into a larger one that computes the same scores."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from isoloss.command_line.options import refuse_below
from isoloss.command_line.terminal import print_table, progress_display, starting
from isoloss.errors import BadInput
from isoloss.results.checkpoint import refuse_damaged

if TYPE_CHECKING:
    from isoloss.models.enlarged_checkpoint import EnlargedCheckpoint


@dataclass(frozen=True)
class EnlargeOptions:
    """Write a wider and deeper checkpoint that computes the same scores (paper B.4).

    Example: isoloss enlarge runs/bert --width 4 --layers 2 runs/bert-large
    """

    checkpoint: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """The folder of a BertForMaskedLM or RobertaPreLayerNormForMaskedLM."""
    out: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="NEW_FOLDER")]
    """The folder to write; it must not exist yet."""
    width: int = 1
    """Multiply width, number of heads and feed-forward units by this integer; heads keep their size."""
    layers: int = 0
    """Add this many layers."""
    paper: bool = False
    """Follow B.4 to the letter, which changes the scores: see docs/enlarging.md."""
    most_parameters: int = 2_000_000_000
    """Refuse to write a model with more parameters than this; each takes four bytes of memory and disk, or
    two in half precision."""
    json: bool = False
    """Print JSON."""


def enlarge(options: EnlargeOptions) -> None:
    """Write a wider and deeper checkpoint that computes the same scores (paper B.4)."""
    _check_without_torch(options)
    with starting("enlarge"):
        from isoloss.models.enlarged_checkpoint import enlarge_checkpoint
        from isoloss.models.enlarging import Enlargement, exact_form, paper_form

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


def _check_without_torch(options: EnlargeOptions) -> None:
    """Refuse what can be refused before torch is imported, which takes seconds."""
    if options.checkpoint.is_dir():
        refuse_damaged(options.checkpoint, "config.json")
    if not (options.checkpoint / "config.json").is_file():
        raise BadInput(
            f"{options.checkpoint} holds no model: it has no config.json; name a checkpoint's folder"
        )
    if options.out.exists() or options.out.is_symlink():
        raise BadInput(f"{options.out} exists already; name a folder that does not, or delete it")
    refuse_below(1, options.width, "--width")
    refuse_below(0, options.layers, "--layers")
    if (options.width, options.layers) == (1, 0):
        raise BadInput("width 1 and 0 layers more change nothing; ask for a larger model")


def _show(enlarged: "EnlargedCheckpoint", out: Path) -> None:
    rows = [
        (name, shape.width, shape.heads, shape.layers, shape.inner_width, parameters)
        for name, shape, parameters in (
            ("before", enlarged.small, enlarged.small_parameters),
            ("after", enlarged.large, enlarged.large_parameters),
        )
    ]
    caption = (
        f"{enlarged.dtype} weights; scores of random sentences differ by at most {enlarged.difference:.2g}, "
        f"the largest score is {enlarged.largest_score:.2g}"
    )
    titles = ("", "width", "heads", "layers", "inner width", "parameters")
    print_table(titles, rows, left=(), caption=caption)
    print(f"written to {out}")
