"""What `isoloss runs` takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class RunsOptions:
    """List the runs in a folder of results: what they are, how far they are, their last numbers.

    Example: isoloss runs results/laptop --where 'width>=48' --where rule=AdamW --sort loss
    """

    folder: tyro.conf.Positional[Path] = Path("results")
    """Folder of results; runs are looked for in it and below it."""
    where: Annotated[tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="CONDITION")] = ()
    """Only runs of which this holds: a key, one of = != < <= > >=, and a value. Keys are settings
    (width, seed, learning_rate, ...), state, experiment, name, step, loss, kl, trace, accuracy, and
    the names of other quantities. Given several times, all must hold."""
    sort: Annotated[str | None, tyro.conf.arg(metavar="KEY")] = None
    """Key to sort by; by experiment and name when not given."""
    descending: bool = False
    """Sort from large to small."""
    json: bool = False
    """Print JSON: {"runs": [...]}."""
