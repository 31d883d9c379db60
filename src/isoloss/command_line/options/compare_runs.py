"""What `isoloss compare-runs` takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class CompareRunsOptions:
    """Compare two runs: the settings in which they differ, and the second's numbers less the first's.

    Example: isoloss compare-runs 23e17441 f3c2ca48 --same-loss

    Numbers are compared at the steps that both runs have, or where both have one loss. Those measured on the
    same sentences are compared sentence by sentence, so that the error is that of the difference.
    """

    first: tyro.conf.Positional[str]
    """A run: its folder, the beginning of its folder's name, or an experiment's name for it."""
    second: tyro.conf.Positional[str]
    """Another run, as the first."""
    same_loss: bool = False
    """Compare where both runs first have the lowest loss that both reach, which may be
    between two steps."""
    at_loss: Annotated[float | None, tyro.conf.arg(metavar="NATS")] = None
    """The same at a loss of your own."""
    results: Path = Path("results")
    """Folder of results that the runs are looked for in."""
    json: bool = False
    """Print JSON, parts of the model included."""
