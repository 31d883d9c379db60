"""An experiment's numbers as one table: a row a measured checkpoint, and a row a reference."""

from pathlib import Path

import polars as pl

from isoloss.experiments.carry_out import is_complete, measured_records
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.reference import PlannedReference
from isoloss.measurements.record import Setting

Row = dict[str, Setting]


def experiment_table(experiment: Experiment, output: Path) -> pl.DataFrame:
    """Rows in the order of the runs and then by step; the references last.

    Columns: `run`, `seed` (of a run that continues another, that one's: claims count seeds), `step` (both
    null for references), `saturated`, `complete` (everything planned of the run is there), the runs' labels,
    and each quantity's columns, null where it has not been measured.
    """
    rows = [row for run in experiment.runs for row in _run_rows(run, output)]
    rows += [row for reference in experiment.references for row in _reference_rows(reference, output)]
    return pl.DataFrame(rows, infer_schema_length=None)


def judged_runs(table: pl.DataFrame) -> list[pl.DataFrame]:
    """What claims are judged on: a frame for each complete run, its saturated checkpoints, and reference.

    A run that was cut short is left out: which of its checkpoints it lacks is no accident. Of the references
    those are there that say so.
    """
    if table.is_empty():
        return []
    counted = table.filter(pl.col("complete") & pl.col("saturated"))
    return counted.partition_by("run", maintain_order=True)


def _run_rows(run: PlannedRun, output: Path) -> list[Row]:
    complete = is_complete(run, output)
    rows = []
    for step in run.checkpoint_steps:
        columns: Row = {}
        for measured in run.measured:
            wanted = (measured.quantity, step, output, measured.weights)
            if step in measured.steps and (found := measured_records(run, *wanted)):
                columns |= measured.columns(found)
        if columns:
            place: Row = {"run": run.name, "seed": run.first_seed, "step": step}
            where: Row = {"saturated": step >= run.saturated_from, "complete": complete}
            rows.append(place | where | dict(run.labels) | columns | {"folder": run.digest[:16]})
    return rows


def _reference_rows(reference: PlannedReference, output: Path) -> list[Row]:
    records = reference.records(output)
    if not records:
        return []
    place: Row = {"run": reference.name, "seed": None, "step": None, "complete": True}
    place["saturated"] = reference.judged
    return [place | dict(reference.labels) | reference.quantity.columns(records)]
