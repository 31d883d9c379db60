"""The output of `isoloss reproduce --dry-run`: the cost of pre-training before it starts."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from isoloss.command_line.reproduce import ReproduceOptions
from isoloss.command_line.terminal import progress_display, table_console
from isoloss.errors import BadInput
from isoloss.experiments.cost import (
    A100,
    H100,
    UTILISATION,
    Device,
    hours,
    run_cost,
    run_throughput,
    this_machine,
)
from isoloss.experiments.experiment import Experiment, SettingsGroup
from isoloss.experiments.experiment_jobs import shared
from isoloss.experiments.paper_settings import settings_of
from isoloss.experiments.planned_run import PlannedRun
from isoloss.models.transformers import Shape
from isoloss.progress import Progress

Row = dict[str, Any]


SECONDS_A_FAMILY = 5.0
"""How long a family's steps are timed, in addition to building its model and one slower first step."""


def print_dry_run(
    request: ReproduceOptions, experiments: Sequence[Experiment], runs: Sequence[PlannedRun]
) -> None:
    """The cost of the runs on stdout, as a table or JSON, and at the paper's scale their settings."""
    with progress_display() as progress:
        machine = this_machine(request.device if request.on == "local" else "cpu")
        measured_on = request.device if request.measure else None
        rows = cost_rows(experiments, runs, machine, measured_on, progress)
    # Only that scale is meant to be the paper's.
    groups = settings_of(experiments) if request.scale == "paper" else ()
    if request.json:
        content = {**cost_as_json(rows, machine), "settings": settings_as_rows(groups)}
        print(json.dumps(content, indent=2))
        return
    print_cost(rows, machine, request.scale)
    if groups:
        print_settings(groups)


def cost_rows(
    experiments: Sequence[Experiment],
    runs: Sequence[PlannedRun],
    machine: Device,
    measured_on: str | None,
    progress: Progress,
) -> list[Row]:
    """A row for runs that differ only in their seed, under the first experiment that plans them.

    With a device in `measured_on`, each family is trained there for a few seconds.
    """
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
                "minutes_a_run_h100": 60 * hours(cost.operations, H100[first.compute.precision]),
                "memory_gigabytes": cost.step.memory_bytes / 1e9,
                "disk_gigabytes": len(alike) * cost.disk_bytes / 1e9,
                **(_measured(first, operations, measured_on) if measured_on else {}),
            }
        )
    progress("counting operations", len(families), len(families))
    return rows


def _measured(run: PlannedRun, operations: float, device: str) -> Row:
    """What a few steps of the run imply for the hours of its family, or why there are none."""
    try:
        found = run_throughput(run, device, SECONDS_A_FAMILY)
    except BadInput as error:
        return {"hours_measured": None, "share_measured": None, "not_measured": str(error)}
    taken = hours(operations, found.device, found.share)
    return {"hours_measured": taken, "share_measured": found.share, "not_measured": None}


def cost_as_json(rows: Sequence[Row], machine: Device) -> dict[str, Any]:
    """The rows, their sum, and their assumptions, for JSON."""
    return {"families": rows, "total": _total(rows), "assumed": _assumed(machine)}


def print_cost(rows: Sequence[Row], machine: Device, scale: str) -> None:
    """The rows and their sum on stdout: operations, hours, gigabytes, and their assumptions."""
    table = Table(title=f"Cost of pre-training, {scale} scale", caption=_assumed(machine))
    measured = any("hours_measured" in row for row in rows)
    for name in ("experiment", "model", "rule"):
        table.add_column(name, no_wrap=True)
    numbers = (
        "parameters",
        "runs",
        "operations",
        "hours here",
        "hours on A100",
        "minutes a seed on H100",
        "GB of memory",
        "GB on disk",
        *(("hours measured here", "share of the rate") if measured else ()),
    )
    for name in ("steps", *numbers):
        table.add_column(name, justify="right", no_wrap=" " not in name)
    for row in rows:
        named = (row["experiment"], row["model"], row["rule"], f"{row['steps']:,}")
        table.add_row(*named, *_numbers(row), *(_measured_numbers(row) if measured else ()))
    table.add_section()
    table.add_row("all", "", "", "", *_numbers(_total(rows)))
    table_console().print(table)
    for reason in dict.fromkeys(row["not_measured"] for row in rows if row.get("not_measured")):
        table_console().print(f"Not measured: {reason}")


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
    a_seed = _three_digits(row["minutes_a_run_h100"]) if "minutes_a_run_h100" in row else ""
    times = map(_three_digits, (row["hours_here"], row["hours_a100"]))
    shown = (parameters, f"{row['runs']:,}", f"{row['operations']:.2e}", *times, a_seed)
    return [*shown, memory, _three_digits(row["disk_gigabytes"])]


def _measured_numbers(row: Row) -> tuple[str, str]:
    if row["hours_measured"] is None:
        return "not measured", ""
    return _three_digits(row["hours_measured"]), f"{row['share_measured']:.0%}"


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _total(rows: Sequence[Row]) -> Row:
    summed = ("runs", "operations", "hours_here", "hours_a100", "disk_gigabytes")
    return {name: sum(row[name] for row in rows) for name in summed}


def _assumed(machine: Device) -> str:
    return (
        f"Hours: at {UTILISATION:.0%} of the matrix rate of {machine.name}, of {A100.name}, and of "
        f"{H100['float32'].name} or {H100['bfloat16'].name}, depending on the precision of the run; small "
        "models reach less (--measure shows how much); measuring is not included. GB of memory: at least, "
        "for training one run. GB on disk: for checkpoints."
    )


def settings_as_rows(groups: Sequence[SettingsGroup]) -> list[dict[str, Any]]:
    """A row per setting, for JSON."""
    return [{"of": group.title, **asdict(setting)} for group in groups for setting in group.settings]


def print_settings(groups: Sequence[SettingsGroup]) -> None:
    """A table on stdout, with a section for each group."""
    table = Table(title="Settings", show_lines=False)
    for column in ("setting", "the paper", "here", "why"):
        table.add_column(column, overflow="fold")
    for group in groups:
        table.add_section()
        table.add_row(f"[bold]{group.title}[/bold]")
        for setting in group.settings:
            table.add_row(setting.name, setting.paper, setting.ours, setting.why)
    table_console().print(table)
