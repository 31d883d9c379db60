"""Finished runs, packed, which several test files unpack and copy."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import polars as pl

from isoloss.experiments.experiment_result import carry_out_experiments
from isoloss.experiments.planned_run import MeasuredAt, PlannedRun
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.stored_runs.packed_records import MOST_VALUES, pack_records
from jobs_in_turn import in_turn
from norm_experiments import experiment, planned

FEW, MANY = ExactLossQuantity(6, 1), ExactLossQuantity(MOST_VALUES + 1, 1)


def measured(seed: int, log: Path) -> PlannedRun:
    own = planned(seed, log, 1.0)
    return replace(own, measured=(*own.measured, MeasuredAt(FEW, (2, 4)), MeasuredAt(MANY, (4,))))


class Packed(NamedTuple):
    """A folder of results with two finished runs and an unfinished one, the file, and the measuring log."""

    output: Path
    file: Path
    log: Path


def packed_runs(folder: Path) -> Packed:
    """Carry the runs out in the folder, and pack them."""
    log, output, file = folder / "log", folder / "out", folder / "records.parquet"
    carry_out_experiments([experiment(measured(1, log), measured(2, log), measured(3, log))], output, in_turn)
    shutil.rmtree(measured(3, log).folder(output) / "measured" / "000002")
    told = pack_records(output, file)
    assert told.runs == 2
    assert told.left_out == {measured(3, log).digest[:16]: "is unfinished: 2 measurements are missing"}
    assert told.records == len(pl.read_parquet(file))
    return Packed(output, file, log)
