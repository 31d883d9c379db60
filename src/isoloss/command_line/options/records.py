"""What `isoloss records` takes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, subcommand


@dataclass(frozen=True)
class PackOptions:
    """Write the records of all finished runs of a folder of results into one small file.

    Left out: checkpoints, pages, and values sentence by sentence where there are more than 512.

    Example: isoloss records pack results/laptop laptop.parquet
    """

    results: Positional[Path]
    """Folder of results; runs are looked for in it and below it."""
    file: Positional[Path]
    """Parquet file to write, a row a record, which polars and DuckDB read too; one there is replaced."""


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
