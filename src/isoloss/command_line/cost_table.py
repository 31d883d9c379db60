"""The output of `isoloss reproduce --dry-run`: the cost of pre-training before it starts."""

import json
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from isoloss.command_line.plain_table import PlainTable
from isoloss.command_line.reproduce import ReproduceOptions
from isoloss.command_line.terminal import duration, progress_display, stdout_width
from isoloss.errors import BadInput
from isoloss.experiments.cost import (
    A100,
    H100,
    UTILISATION,
    Device,
    RunCost,
    hours,
    run_cost,
    run_throughput,
    this_machine,
)
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_jobs import shared
from isoloss.experiments.planned_run import PlannedRun
from isoloss.models.transformers import Shape
from isoloss.progress import Progress

Row = dict[str, Any]


def _time(hours: float) -> str:
    return duration(3600 * hours)


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


MEASURED = "timed here"
COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "model": ("model", str),
    "rule": ("rule", str),
    "steps": ("steps", "{:,}".format),
    "batch": ("batch_size", "{:,}".format),
    "parameters": ("parameters", lambda number: f"{number / 1e6:.3g} M"),
    "runs": ("runs", "{:,}".format),
    "operations": ("operations", "{:.2e}".format),
    "here": ("hours_here", _time),
    "A100": ("hours_a100", _time),
    "H100": ("hours_h100", _time),
    "a seed on H100": ("minutes_a_run_h100", lambda minutes: _time(minutes / 60)),
    "GB of memory": ("memory_gigabytes", _three_digits),
    "GB on disk": ("disk_gigabytes", _three_digits),
    MEASURED: ("hours_measured", _time),
    "of the rate": ("share_measured", "{:.0%}".format),
}
"""What each shows of a row, and how; nothing where that is None, or the row has none."""
OF_ONE_MODEL = ("model", "parameters", "a seed on H100", "GB of memory")
"""The columns in which the sum of all is blank."""
SUMMED = ("runs", "measurements", "operations", "hours_here", "hours_a100", "hours_h100", "disk_gigabytes")
LEAST_FIRST = (
    *("operations", "GB of memory", "a seed on H100", "parameters", "A100", "H100", "GB on disk"),
    *("batch", "steps", "of the rate", "rule"),
)
"""The columns that are left out where a line is too narrow, in this order."""
CONTINUED = "continued by others"
"""In place of an experiment, for runs that none has planned for itself."""
WIDEST = 100
"""Characters in a line of text that has no other limit."""

SECONDS_A_FAMILY = 5.0
"""How long a family's steps are timed, in addition to building its model and one slower first step."""


def print_dry_run(
    request: ReproduceOptions, experiments: Sequence[Experiment], runs: Sequence[PlannedRun]
) -> None:
    """The cost of the runs and its assumptions on stdout: JSON, or a line a row, as wide as the terminal."""
    with progress_display() as progress:
        machine = this_machine(request.device if request.on == "local" else "cpu")
        measured_on = request.device if request.measure else None
        rows = cost_rows(experiments, runs, machine, measured_on, progress)
    total = {name: sum(row[name] for row in rows) for name in SUMMED}
    width = None if request.wide else stdout_width()
    if request.json:
        print(json.dumps({"families": rows, "total": total, "assumed": _assumed(machine)}, indent=2))
        return
    print(
        f"Cost of training alone, {request.scale} scale; {total['measurements']:,} measurements come on top"
    )
    groups: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        cells = _cells(row) | ({MEASURED: "not measured"} if row.get("not_measured") else {})
        groups.setdefault(row["experiment"] or CONTINUED, []).append(cells)
    groups["all of them"] = [dict.fromkeys(OF_ONE_MODEL, "") | _cells(total)]
    columns = [name for name in COLUMNS if any(name in row for each in groups.values() for row in each)]
    table = PlainTable(groups, columns, set(columns) - {"model", "rule"}, LEAST_FIRST)
    for line in table.lines(width):
        print(line)
    for line in textwrap.wrap(_assumed(machine), width or WIDEST):
        print(line)
    for reason in dict.fromkeys(row["not_measured"] for row in rows if row.get("not_measured")):
        print(f"Not measured: {reason}")


def cost_rows(
    experiments: Sequence[Experiment],
    runs: Sequence[PlannedRun],
    machine: Device,
    measured_on: str | None,
    progress: Progress,
) -> list[Row]:
    """A row for runs that cost the same, such as all seeds', under the first experiment that plans them.

    With a device in `measured_on`, each row's runs are timed there for a few seconds.
    """
    # Those that are only continued by others are planned by none.
    planned_by = {run.digest: e.name for e in reversed(experiments) for run in e.runs}
    families: dict[tuple[object, ...], list[PlannedRun]] = {}
    for run in shared(runs):
        kind = (run.objective, run.steps, run.batch_size, run.continues is None)
        kept = (run.checkpoint_steps, run.averaging_horizon, run.compute)
        key = (run.language.digest, run.architecture, run.update_rule, *kind, *kept)
        families.setdefault(key, []).append(run)
    alike: dict[tuple[object, ...], tuple[RunCost, list[PlannedRun]]] = {}
    for done, family in enumerate(families.values()):
        first = family[0]
        progress("counting operations", done, len(families), first.name)
        cost = run_cost(first)
        named = (planned_by.get(first.digest, ""), _model(first), type(first.update_rule).__name__)
        shown = (*named, first.steps, first.batch_size, first.compute, cost)
        alike.setdefault(shown, (cost, []))[1].extend(family)
    progress("counting operations", len(families), len(families))
    rows = []
    for done, (cost, of) in enumerate(alike.values()):
        row = _row(planned_by.get(of[0].digest, ""), cost, of, machine)
        if measured_on:
            progress("timing steps", done, len(alike), of[0].name)
            row |= _measured(of[0], len(of) * cost.operations, measured_on)
        rows.append(row)
    return rows


def _row(experiment: str, cost: RunCost, runs: Sequence[PlannedRun], machine: Device) -> Row:
    first, operations = runs[0], len(runs) * cost.operations
    return {
        "experiment": experiment,
        "model": _model(first),
        "rule": type(first.update_rule).__name__,
        "steps": first.steps,
        "batch_size": first.batch_size,
        "parameters": cost.step.parameters,
        "runs": len(runs),
        "measurements": sum(len(each.steps) for run in runs for each in run.measured),
        "operations": operations,
        "hours_here": hours(operations, machine),
        "hours_a100": hours(operations, A100),
        "hours_h100": hours(operations, H100[first.compute.precision]),
        "minutes_a_run_h100": 60 * hours(cost.operations, H100[first.compute.precision]),
        "memory_gigabytes": cost.step.memory_bytes / 1e9,
        "disk_gigabytes": len(runs) * cost.disk_bytes / 1e9,
    }


def _measured(run: PlannedRun, operations: float, device: str) -> Row:
    """What a few steps of the run imply for the hours of its family, or why there are none."""
    try:
        found = run_throughput(run, device, SECONDS_A_FAMILY)
    except BadInput as error:
        return {"hours_measured": None, "share_measured": None, "not_measured": str(error)}
    taken = hours(operations, found.device, found.share)
    return {"hours_measured": taken, "share_measured": found.share, "not_measured": None}


def _model(run: PlannedRun) -> str:
    settings = getattr(run.architecture, "shape", run.architecture)
    layers = getattr(settings, "layers", None)
    name = "transformer" if isinstance(settings, Shape) else type(settings).__name__
    return f"{name} {settings.width} × {layers}" if layers and hasattr(settings, "width") else name


def _cells(row: Row) -> dict[str, str]:
    known = {title: (row.get(key), shown) for title, (key, shown) in COLUMNS.items()}
    return {title: shown(value) for title, (value, shown) in known.items() if value is not None}


def _assumed(machine: Device) -> str:
    return (
        f"Times: at {UTILISATION:.0%} of the matrix rate of {machine.name}, of {A100.name}, and of "
        f"{H100['float32'].name} or {H100['bfloat16'].name}, depending on the precision of the run; small "
        "models reach less (--measure shows how much). Measuring is not included, nor what some rules "
        "compute beside a plain step: the two more passes of sharpening, and what the adversary and the "
        "flatness regulariser add, which may double a step where batches are small. "
        "GB of memory: at least, for training one run. GB on disk: for checkpoints."
    )
