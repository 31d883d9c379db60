"""What `isoloss reproduce --dry-run` prints: the cost of pre-training before it starts."""

import json
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from isoloss.command_line.console import table_console
from isoloss.experiments.cost import A100, UTILISATION, Device, hours, run_cost
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_jobs import shared
from isoloss.experiments.planned_run import PlannedRun
from isoloss.models.shapes import Shape
from isoloss.progress import Progress

Row = dict[str, Any]


def cost_rows(
    experiments: Sequence[Experiment], runs: Sequence[PlannedRun], machine: Device, progress: Progress
) -> list[Row]:
    """A row for runs that differ in their seed alone, under the first experiment that plans them."""
    planned_by = {run.digest: e.name for e in reversed(experiments) for run in e.runs}
    families: dict[tuple[object, ...], list[PlannedRun]] = {}
    for run in shared(runs):
        families.setdefault(_family(run), []).append(run)
    rows = []
    for done, alike in enumerate(families.values()):
        first = alike[0]
        progress("counting operations", done, len(families), first.name)
        cost = run_cost(first)
        operations = len(alike) * cost.operations
        rows.append(
            {
                # Those that are only continued by others are planned by none.
                "experiment": planned_by.get(first.digest, ""),
                "model": _model(first),
                "rule": type(first.update_rule).__name__,
                "steps": first.steps,
                "parameters": cost.step.parameters,
                "runs": len(alike),
                "operations": operations,
                "hours_here": hours(operations, machine),
                "hours_a100": hours(operations, A100),
                "memory_gigabytes": cost.step.memory_bytes / 1e9,
                "disk_gigabytes": len(alike) * cost.disk_bytes / 1e9,
            }
        )
    progress("counting operations", len(families), len(families))
    return rows


def print_cost(rows: Sequence[Row], machine: Device, scale: str, *, as_json: bool) -> None:
    """The rows and their sum on stdout: operations, hours, gigabytes, and what they assume."""
    assumed = (
        f"Hours: {UTILISATION:.0%} of the matrix rate of {machine.name}, and of {A100.name}; "
        "measuring not counted. GB of memory: of one run's training, at least. GB on disk: of checkpoints."
    )
    if as_json:
        print(json.dumps({"families": rows, "total": _total(rows), "assumed": assumed}, indent=2))
        return
    table = Table(title=f"Cost of pre-training, {scale} scale", caption=assumed)
    for name in ("experiment", "model", "rule"):
        table.add_column(name, no_wrap=True)
    numbers = (
        "parameters",
        "runs",
        "operations",
        "hours here",
        "hours on A100",
        "GB of memory",
        "GB on disk",
    )
    for name in ("steps", *numbers):
        table.add_column(name, justify="right", no_wrap=" " not in name)
    for row in rows:
        table.add_row(*(row["experiment"], row["model"], row["rule"]), f"{row['steps']:,}", *_numbers(row))
    table.add_section()
    table.add_row("all", "", "", "", *_numbers(_total(rows)))
    table_console().print(table)


def _family(run: PlannedRun) -> tuple[object, ...]:
    rest = (run.objective, run.steps, run.batch_size, run.continues is None)
    return (run.language.digest, run.architecture, run.update_rule, *rest)


def _model(run: PlannedRun) -> str:
    settings = getattr(run.architecture, "shape", run.architecture)
    layers = getattr(settings, "layers", None)
    name = "transformer" if isinstance(settings, Shape) else type(settings).__name__
    return f"{name} {settings.width} × {layers}" if layers and hasattr(settings, "width") else name


def _numbers(row: Row) -> list[str]:
    parameters = f"{row['parameters'] / 1e6:.3g} M" if "parameters" in row else ""
    memory = _three_digits(row["memory_gigabytes"]) if "memory_gigabytes" in row else ""
    times = map(_three_digits, (row["hours_here"], row["hours_a100"]))
    shown = (parameters, f"{row['runs']:,}", f"{row['operations']:.2e}", *times)
    return [*shown, memory, _three_digits(row["disk_gigabytes"])]


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _total(rows: Sequence[Row]) -> Row:
    summed = ("runs", "operations", "hours_here", "hours_a100", "disk_gigabytes")
    return {name: sum(row[name] for row in rows) for name in summed}
