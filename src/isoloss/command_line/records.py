"""`isoloss records`: the records of finished runs in one file, and back."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, subcommand

from isoloss.command_line.options import refuse_below, refuse_unwritable
from isoloss.command_line.terminal import progress_display, starting


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
    """Store per-sentence values of measurements on at most this many sentences; 0 stores none."""


@dataclass(frozen=True)
class UnpackOptions:
    """Unpack runs into a folder of results, where they count as complete; existing runs stay as they are.

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


def records(options: RecordsOptions) -> int:
    """Pack or unpack, and report what is in the file and what is not; 1 if a run is damaged, else 0."""
    action = options.action
    return _pack(action) if isinstance(action, PackOptions) else _unpack(action)


def _pack(options: PackOptions) -> int:
    refuse_below(0, options.most_values, "--most-values")
    refuse_unwritable(options.file)
    with starting("records"):
        from isoloss.stored_runs.packed_records import pack_records

    with progress_display() as progress:
        packed = pack_records(options.results, options.file, options.most_values, progress)
    print(f"{options.file}: {packed.records:,} records of {packed.runs:,} finished runs")
    print("left out: checkpoints, references, and the data of language pages; all of these can be recomputed")
    if packed.without_values:
        print(
            f"left out: per-sentence values of {packed.without_values:,} records (none stored, or more than "
            f"{options.most_values})"
        )
    if packed.left_out:
        some = ", ".join(f"{name[:8]} {why}" for name, why in list(packed.left_out.items())[:5])
        print(f"left out: {len(packed.left_out):,} runs ({some})")
    for damage in packed.damage:
        print(damage, file=sys.stderr)
    return 1 if packed.damage else 0


def _unpack(options: UnpackOptions) -> int:
    with starting("records"):
        from isoloss.stored_runs.packed_records import unpack_records

    with progress_display() as progress:
        unpacked = unpack_records(options.file, options.results, progress)
    print(f"{options.results}: {len(unpacked.made):,} runs, records only, which will not be computed again")
    if unpacked.there:
        print(f"{len(unpacked.there):,} runs were already there and are left as they are")
    for damage in unpacked.damage:
        print(damage, file=sys.stderr)
    return 1 if unpacked.damage else 0
