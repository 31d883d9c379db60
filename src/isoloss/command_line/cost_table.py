"""What `isoloss reproduce --dry-run` prints: the cost of pre-training before it starts."""

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from isoloss.experiments.cost import A100, UTILISATION, hours, run_operations, this_machine
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_jobs import shared
from isoloss.experiments.planned_run import PlannedRun
from isoloss.models.shapes import Shape
from isoloss.models.transformers import parameter_count

_BYTES_A_NUMBER = 4
_COPIES_WITH_TRAINING_STATE = 2
"""Checkpoints of a run that keep the optimiser's two moments beside the weights."""

Row = dict[str, Any]


def print_cost(
    experiments: Sequence[Experiment], runs: Sequence[PlannedRun], scale: str, *, as_json: bool
) -> None:
    """Operations, hours and gigabytes: a line for runs that differ in their seed alone, each run once."""
    machine = this_machine()
    # The first experiment that plans a run; none for one that is only continued by others.
    planned_by = {run.digest: e.name for e in reversed(experiments) for run in e.runs}
    families: dict[tuple[object, ...], list[PlannedRun]] = {}
    for run in shared(runs):
        families.setdefault(_family(run), []).append(run)
    rows = []
    for alike in families.values():
        first, operations = alike[0], sum(map(run_operations, alike))
        parameters = parameter_count(first.architecture, first.language.words, first.language.maximum_length)
        copies = len(first.checkpoint_steps) + 2 * _COPIES_WITH_TRAINING_STATE
        row: Row = {
            "experiment": planned_by.get(first.digest, ""),
            "model": _model(first),
            "rule": type(first.update_rule).__name__,
            "steps": first.steps,
            "parameters": parameters,
            "runs": len(alike),
            "operations": operations,
            "hours_here": hours(operations, machine),
            "hours_a100": hours(operations, A100),
            "gigabytes": len(alike) * copies * parameters * _BYTES_A_NUMBER / 1e9,
        }
        rows.append(row)
    assumed = (
        f"{UTILISATION:.0%} of the matrix rate of {machine.name}, and of {A100.name}; measuring not counted"
    )
    if as_json:
        print(json.dumps({"families": rows, "total": _total(rows), "assumed": assumed}, indent=2))
    else:
        Console().print(_table(rows, f"Cost of pre-training, {scale} scale", assumed))


def _family(run: PlannedRun) -> tuple[object, ...]:
    rest = (run.objective, run.steps, run.batch_size, run.continues is None)
    return (run.language.digest, run.architecture, run.update_rule, *rest)


def _model(run: PlannedRun) -> str:
    settings = getattr(run.architecture, "shape", run.architecture)
    layers = getattr(settings, "layers", None)
    name = "transformer" if isinstance(settings, Shape) else type(settings).__name__
    return f"{name} {settings.width} × {layers}" if layers and hasattr(settings, "width") else name


def _table(rows: Sequence[Row], title: str, assumed: str) -> Table:
    table = Table(title=title, caption=assumed)
    for name in ("experiment", "model", "rule"):
        table.add_column(name)
    for name in ("steps", "parameters", "runs", "operations", "hours here", "hours on A100", "GB on disk"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*(row["experiment"], row["model"], row["rule"]), f"{row['steps']:,}", *_numbers(row))
    table.add_section()
    table.add_row("all", "", "", "", *_numbers(_total(rows)))
    return table


def _numbers(row: Row) -> list[str]:
    parameters = f"{row['parameters'] / 1e6:.3g} M" if "parameters" in row else ""
    costs = (row["hours_here"], row["hours_a100"], row["gigabytes"])
    shown = (f"{cost:,.0f}" if cost >= 100 else f"{cost:.3g}" for cost in costs)
    return [parameters, str(row["runs"]), f"{row['operations']:.2e}", *shown]


def _total(rows: Sequence[Row]) -> Row:
    summed = ("runs", "operations", "hours_here", "hours_a100", "gigabytes")
    return {name: sum(row[name] for row in rows) for name in summed}
