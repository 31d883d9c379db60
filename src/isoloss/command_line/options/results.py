"""What the commands on folders of results take: `runs`, `show`, `compare-runs` and `records`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, subcommand


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


@dataclass(frozen=True)
class PackOptions:
    """Write the records of all finished runs of a folder of results into one small file.

    Left out: checkpoints, pages, and values sentence by sentence where there are many.

    Example: isoloss records pack results/laptop laptop.parquet
    """

    results: Positional[Path]
    """Folder of results; runs are looked for in it and below it."""
    file: Positional[Path]
    """Parquet file to write, a row a record, which polars and DuckDB read too; one there is replaced."""
    most_values: int = 512
    """Values sentence by sentence are kept of measurements on so many sentences at most; with 0 of none."""


@dataclass(frozen=True)
class UnpackOptions:
    """Put packed runs into a folder of results, where they count as complete; runs there are kept.

    Example: isoloss records unpack laptop.parquet results/laptop
    """

    file: Positional[Path]
    """File that `isoloss records pack` wrote."""
    results: Positional[Path]
    """Folder of results, made if need be."""


@dataclass(frozen=True)
class RecordsOptions:
    """Pack the records of finished runs into one file, without checkpoints, or unpack them elsewhere.

    Example: isoloss records pack results/laptop laptop.parquet
    """

    action: Annotated[PackOptions, subcommand("pack")] | Annotated[UnpackOptions, subcommand("unpack")]


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
