"""What `isoloss enlarge` takes."""

from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class EnlargeOptions:
    """Write a wider and deeper checkpoint that computes the same scores (paper B.4).

    Example: isoloss enlarge runs/bert --width 4 --layers 2 runs/bert-large
    """

    checkpoint: tyro.conf.Positional[Path]
    """The folder of a BertForMaskedLM or RobertaPreLayerNormForMaskedLM."""
    out: tyro.conf.Positional[Path]
    """The folder to write; it must not exist."""
    width: int = 1
    """Multiply width, heads and feed-forward units by this integer; heads keep their size."""
    layers: int = 0
    """Add this many layers."""
    paper: bool = False
    """Follow B.4 to the letter, which changes the scores: see docs/enlarging.md."""
    most_parameters: int = 2_000_000_000
    """Refuse to make more parameters than this; each takes four bytes of memory and of disk."""
    json: bool = False
    """Print JSON."""
