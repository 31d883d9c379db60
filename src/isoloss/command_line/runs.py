"""`isoloss runs`: a list of runs with their numbers."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import Positional

from isoloss.command_line.plain_table import PlainTable, Row
from isoloss.command_line.show import report_damage, run_as_json
from isoloss.command_line.terminal import starting, stdout_width

if TYPE_CHECKING:
    from isoloss.stored_runs.stored_run import StoredRun

SHORTEST_NAME = 8
"""Characters of a folder's name that are shown; `isoloss show` and `compare` accept the start of a name."""

_OFTEN_ALIKE = ("architecture", "rule", "objective", "state")
_NUMBERS = ("seed", "steps", "loss", "trace")
_LEAST_FIRST = ("also in", "objective", "architecture", "rule", "run", "seed", "steps")
"""The columns that are left out where a line is too narrow, in this order, before any number."""

_SETTINGS_LAST = ("rule", "objective", "architecture", "also in")


@dataclass(frozen=True)
class RunsOptions:
    """List the runs in a folder of results, with their settings, progress and latest numbers.

    A number that was last measured at an earlier step than the run's last is shown with that step.

    Example: isoloss runs results/laptop --where 'width>=48' --where rule=AdamW --sort loss
    """

    results: Positional[Path] = Path("results")
    """Folder of results, searched recursively for runs."""
    where: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]], tyro.conf.arg(metavar="CONDITION", help_behavior_hint="")
    ] = ()
    """Only runs that satisfy this condition: a key, one of = != < <= > >=, and a value. Keys are settings
    (width, seed, learning_rate, ...), state, experiment, name, step, loss, kl, trace, accuracy, and the
    names of other quantities, each with its number at the last step at which it was measured. If the option
    is repeated, all conditions must hold."""
    sort: Annotated[str | None, tyro.conf.arg(metavar="KEY", help_behavior_hint="")] = None
    """Key to sort by; experiment and name by default."""
    descending: bool = False
    """Sort in descending order."""
    wide: bool = False
    """Print every column, however long the lines."""
    json: bool = False
    """Print JSON: {"runs": [...]}."""


def runs(options: RunsOptions) -> int:
    """List them; returns 1 if something there is damaged, which is named on stderr and left out, else 0."""
    with starting("runs"):
        from isoloss.stored_runs.run_filter import condition, runs_where, sorted_runs
        from isoloss.stored_runs.stored_run import runs_in

    every = runs_in(options.results)
    chosen = runs_where(every, [condition(text) for text in options.where])
    if options.sort is not None and chosen:
        chosen = sorted_runs(chosen, options.sort, options.descending)
    elif options.sort is None:
        chosen = sorted(chosen, key=_numbers_as_numbers, reverse=options.descending)
    code = report_damage(every)
    if options.json:
        print(json.dumps({"runs": [run_as_json(run) for run in chosen]}, ensure_ascii=False))
        return code
    rows = _told_apart(chosen, [_row(run) for run in chosen])
    alike = [name for name in _OFTEN_ALIKE if len(rows) > 1 and len({row.get(name) for row in rows}) == 1]
    groups = _groups(chosen, rows, by_experiment=options.sort is None)
    found = dict.fromkeys(name for each in groups.values() for row in each for name in row)
    columns = [name for name in sorted(found, key=_SETTINGS_LAST.__contains__) if name not in alike]
    numbers = {name for name in columns if name in _NUMBERS or name.startswith("accuracy")}
    table = PlainTable(groups, columns, numbers, _LEAST_FIRST, of_no_group="of no experiment")
    width = None if options.wide else stdout_width()
    for line in table.lines(width):
        print(line)
    # What all runs share is printed once instead of as a column.
    shared = (rows[0][name] for name in alike if name in rows[0])
    print(", ".join([f"{len(chosen)} of {len(every)} runs", *shared]))
    return code


def _groups(runs: Sequence["StoredRun"], rows: Sequence[Row], *, by_experiment: bool) -> dict[str, list[Row]]:
    """The rows, each with its `name`: under the first experiment of each, or all under one empty title."""
    found: dict[str, list[Row]] = {}
    for run, row in zip(runs, rows, strict=True):
        experiment, *others = [*run.names, ""] if by_experiment else [""]
        name = run.names[experiment] if experiment else _name(run) or run.name[:SHORTEST_NAME]
        also = {"also in": ", ".join(filter(None, others))} if any(others) else {}
        found.setdefault(experiment, []).append({"name": name, **row, **also})
    return found


def _told_apart(runs: Sequence["StoredRun"], rows: Sequence[Row]) -> list[Row]:
    """The rows; those of copies of a run have what tells their folders apart."""
    copies: dict[str, list[Path]] = {}
    for run in runs:
        copies.setdefault(run.run[:SHORTEST_NAME], []).append(run.folder)
    if len(copies) == len(rows):
        return list(rows)
    of_each = [copies[run.run[:SHORTEST_NAME]] for run in runs]
    return [
        {"folder": _apart(run.folder, folders) if len(folders) > 1 else "", **row}
        for run, row, folders in zip(runs, rows, of_each, strict=True)
    ]


def _apart(folder: Path, others: Sequence[Path]) -> str:
    """The folder's path without the parts that it begins and ends with as all the others do.

    >>> _apart(Path("results/b/runs/1"), [Path("results/runs/1"), Path("results/b/runs/1")])
    'b'
    """
    begin = _alike([each.parts for each in others])
    end = _alike([each.parts[begin:][::-1] for each in others])
    return "/".join(folder.parts[begin : len(folder.parts) - end]) or "."


def _alike(several: Sequence[Sequence[str]]) -> int:
    """How many of their first parts are the same."""
    return sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*several, strict=False)))


def _row(run: "StoredRun") -> Row:
    """The run's cells by their columns' names, but for its own."""
    from isoloss.stored_runs.run_filter import records_of, run_facts, values_of

    def one(key: str) -> str:
        found = values_of(facts, key)
        return str(found[0]) if found else ""

    facts = run_facts(run)
    shape = [(name, values_of(facts, name)) for name in ("width", "hidden", "layers")]
    sizes = [f"{name} {found[0]}" for name, found in shape if found]
    row = {
        "run": run.name[:SHORTEST_NAME],
        "seed": one("seed"),
        "steps": f"{run.step:,}" if run.step == run.planned_steps else f"{run.step:,}/{run.planned_steps:,}",
        "state": run.state,
    }
    for short in ("loss", "trace", "accuracy"):
        for record in records_of(short, run.last_records):
            column = f"{short} {record.settings['task']}" if "task" in record.settings else short
            step = record.settings.get("step")
            earlier = f" at {step:,}" if isinstance(step, int) and step != run.step else ""
            # Of several, e.g. of the same model enlarged, the first is the plainest.
            row.setdefault(column, f"{record}{earlier}")
    row |= {
        "rule": one("update_rule"),
        "objective": one("objective"),
        "architecture": ", ".join([one("architecture"), *sizes]),
    }
    return {name: cell for name, cell in row.items() if cell}


def _name(run: "StoredRun") -> str:
    """The run's experiments with their names for it; its plan's name if it has none."""
    from isoloss.stored_runs.stored_run import full_names

    return ", ".join(full_names(run)) or str(run.plan.get("name", ""))


def _numbers_as_numbers(run: "StoredRun") -> tuple[bool, list[Any]]:
    """A key that sorts runs without a name last, and width-9 before width-10."""
    parts = re.split(r"(\d+)", _name(run))
    # Every other part is a number, so that strings are compared only with strings.
    return not _name(run), [int(part) if place % 2 else part for place, part in enumerate(parts)]
