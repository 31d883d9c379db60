"""What `isoloss show` takes."""

from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class ShowOptions:
    """Show one run: its specification, the versions behind it, every checkpoint with every number.

    Example: isoloss show 23e17441
    """

    run: tyro.conf.Positional[str]
    """The run's folder, or the beginning of its folder's name, or an experiment's name for it, such as
    "figure-1 width-32-seed-1"."""
    results: Path = Path("results")
    """Folder of results that the run is looked for in."""
    json: bool = False
    """Print JSON."""
