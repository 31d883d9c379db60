"""Options of the commands on folders of results: `runs`, `show`, `compare-runs` and `records`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, subcommand


@dataclass(frozen=True)
class RunsOptions:
    """List the runs in a folder of results, with their settings, progress and latest numbers.

    Example: isoloss runs results/laptop --where 'width>=48' --where rule=AdamW --sort loss
    """

    folder: tyro.conf.Positional[Path] = Path("results")
    """Folder of results, searched recursively for runs."""
    where: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="CONDITION", help_behavior_hint="")
    ] = ()
    """Only runs that satisfy this condition: a key, one of = != < <= > >=, and a value. Keys are settings
    (width, seed, learning_rate, ...), state, experiment, name, step, loss, kl, trace, accuracy, and the
    names of other quantities. If the option is repeated, all conditions must hold."""
    sort: Annotated[str | None, tyro.conf.arg(metavar="KEY", help_behavior_hint="")] = None
    """Key to sort by; experiment and name by default."""
    descending: bool = False
    """Sort in descending order."""
    json: bool = False
    """Print JSON: {"runs": [...]}."""


@dataclass(frozen=True)
class CompareRunsOptions:
    """Compare two runs: the settings in which they differ, and the second's numbers minus the first's.

    Example: isoloss compare-runs 23e17441 f3c2ca48 --same-loss

    Numbers are compared at the steps that both runs have, or where both have the same loss. Numbers measured
    on the same sentences are compared sentence by sentence, which gives the standard error of the difference.
    """

    first: Annotated[Positional[str], tyro.conf.arg(metavar="RUN")]
    """A run: its folder, a prefix of its folder's name, or its name in an experiment."""
    second: Annotated[Positional[str], tyro.conf.arg(metavar="OTHER_RUN")]
    """The other run, specified in the same way."""
    same_loss: bool = False
    """Compare where each run first reaches the lowest loss that both reach, which may lie between two
    steps."""
    at_loss: Annotated[float | None, tyro.conf.arg(metavar="NATS", help_behavior_hint="")] = None
    """Compare at this loss instead."""
    results: Path = Path("results")
    """Folder of results to search for the runs."""
    json: bool = False
    """Print JSON, including the values of each part of the model."""


@dataclass(frozen=True)
class PackOptions:
    """Write the records of all finished runs in a folder of results to one small file.

    Checkpoints, pages, and per-sentence values of large measurements are left out.

    Example: isoloss records pack results/laptop laptop.parquet
    """

    results: Annotated[Positional[Path], tyro.conf.arg(metavar="RESULTS")]
    """Folder of results, searched recursively for runs."""
    file: Annotated[Positional[Path], tyro.conf.arg(metavar="FILE")]
    """Parquet file to write, one record per row, which polars and DuckDB can also read; an existing file is
    replaced."""
    most_values: int = 512
    """Keep per-sentence values of measurements on at most this many sentences; 0 keeps none."""


@dataclass(frozen=True)
class UnpackOptions:
    """Unpack runs into a folder of results, where they count as complete; existing runs are kept.

    Example: isoloss records unpack laptop.parquet results/laptop
    """

    file: Annotated[Positional[Path], tyro.conf.arg(metavar="FILE")]
    """File that `isoloss records pack` wrote."""
    results: Annotated[Positional[Path], tyro.conf.arg(metavar="RESULTS")]
    """Folder of results, created if necessary."""


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

    run: Annotated[Positional[str], tyro.conf.arg(metavar="RUN")]
    """The run's folder, a prefix of its folder's name, or its name in an experiment, such as "figure-1
    width-32-seed-1"."""
    results: Path = Path("results")
    """Folder of results to search for the run."""
    json: bool = False
    """Print JSON."""
