"""`isoloss runs`: a list of runs with their numbers."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import Positional

from isoloss.command_line.show import report_damage, run_as_json
from isoloss.command_line.terminal import starting, stdout_width, without_middle

if TYPE_CHECKING:
    from isoloss.stored_runs.stored_run import StoredRun

SHORTEST_NAME = 8
"""Characters of a folder's name that are shown; `isoloss show` and `compare` accept the start of a name."""

_OFTEN_ALIKE = ("architecture", "rule", "objective", "state")
_NUMBERS = ("seed", "steps", "loss", "trace")
_LEAST_FIRST = ("also in", "objective", "architecture", "rule", "run", "seed", "steps")
"""The columns that are left out where the terminal is too narrow, in this order, before any number."""

_SETTINGS_LAST = ("rule", "objective", "architecture", "also in")
GAP, SHORTEST_CELL = "  ", 12


@dataclass(frozen=True)
class RunsOptions:
    """List the runs in a folder of results, with their settings, progress and latest numbers.

    Example: isoloss runs results/laptop --where 'width>=48' --where rule=AdamW --sort loss
    """

    folder: Positional[Path] = Path("results")
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
    wide: bool = False
    """Print every column, however long the lines; as always where the output is no terminal."""
    json: bool = False
    """Print JSON: {"runs": [...]}."""


def runs(options: RunsOptions) -> int:
    """List the runs in a folder of results, with their settings, progress and latest numbers.

    Returns 1 if something there is damaged, which is named on stderr and left out, else 0.
    """
    with starting("runs"):
        from isoloss.results.run_folder import is_older
        from isoloss.stored_runs.run_filter import condition, runs_where, sorted_runs
        from isoloss.stored_runs.stored_run import runs_in

    every = runs_in(options.folder)
    chosen = runs_where(every, [condition(text) for text in options.where])
    if options.sort is not None and chosen:
        chosen = sorted_runs(chosen, options.sort, options.descending)
    elif options.sort is None:
        chosen = sorted(chosen, key=_numbers_as_numbers, reverse=options.descending)
    code = report_damage(every)
    if options.json:
        print(json.dumps({"runs": [run_as_json(run) for run in chosen]}, ensure_ascii=False))
        return code
    rows = [_row(run) for run in chosen]
    alike = [name for name in _OFTEN_ALIKE if len(rows) > 1 and len({row.get(name) for row in rows}) == 1]
    groups = _groups(chosen, rows, by_experiment=options.sort is None)
    columns = [name for name in _columns(groups) if name not in alike]
    width = None if options.wide else stdout_width()
    shown = columns if width is None else _that_fit(columns, groups, width)
    for line in _lines(groups, shown, width):
        print(line)
    # What all runs share is printed once instead of as a column.
    if older := sum(is_older(run.folder) for run in chosen):
        print(f"{older} of them, of an older isoloss, have no digests: damage cannot be detected")
    print(", ".join([f"{len(chosen)} of {len(every)} runs", *(rows[0][name] for name in alike)]))
    if hidden := [name for name in columns if name not in shown]:
        print(f"not shown for lack of room: {', '.join(hidden)}; --wide shows everything")
    return code


Row = dict[str, str]


def _groups(runs: Sequence["StoredRun"], rows: Sequence[Row], *, by_experiment: bool) -> dict[str, list[Row]]:
    """The rows, each with its `name`: under the first experiment of each, or all under one empty title."""
    found: dict[str, list[Row]] = {}
    for run, row in zip(runs, rows, strict=True):
        experiment, *others = [*run.names, ""] if by_experiment else [""]
        name = run.names[experiment] if experiment else _name(run) or run.name[:SHORTEST_NAME]
        also = {"also in": ", ".join(filter(None, others))} if any(others) else {}
        found.setdefault(experiment, []).append({"name": name, **row, **also})
    return found


def _columns(groups: Mapping[str, list[Row]]) -> list[str]:
    """A column for each value that any run has: numbers first, then settings."""
    found = dict.fromkeys(name for rows in groups.values() for row in rows for name in row)
    return sorted(found, key=_SETTINGS_LAST.__contains__)


def _width_of(column: str, groups: Mapping[str, list[Row]]) -> int:
    return max(len(column), *(len(row.get(column, "")) for rows in groups.values() for row in rows))


def _that_fit(columns: Sequence[str], groups: Mapping[str, list[Row]], width: int) -> list[str]:
    """The columns but for those that a line has no room for: what is least asked for first, then the last."""
    shown = list(columns)
    widths = {name: _width_of(name, groups) for name in columns}
    widths["name"] = min(widths.get("name", 0), SHORTEST_CELL)
    while len(shown) > 1 and sum(widths[name] + len(GAP) for name in shown) > width:
        shown.remove(next((name for name in _LEAST_FIRST if name in shown), shown[-1]))
    return shown


def _lines(groups: Mapping[str, list[Row]], columns: Sequence[str], width: int | None) -> Iterator[str]:
    """The titles of the columns, then a line a run below its experiment; only a name is ever cut."""
    if not columns:
        return
    widths = {name: _width_of(name, groups) for name in columns}
    indent = GAP if any(groups) else ""
    if width is not None:
        others = sum(widths[name] + len(GAP) for name in columns if name != "name")
        widths["name"] = min(widths["name"], max(1, width - len(indent) - others))
    yield _line({name: name for name in columns}, widths, indent)
    for experiment, rows in groups.items():
        if experiment:
            yield experiment
        elif indent:
            yield "of no experiment"
        yield from (_line(row, widths, indent) for row in rows)


def _line(row: Row, widths: Mapping[str, int], indent: str) -> str:
    cells = []
    for name, width in widths.items():
        text = without_middle(row.get(name, ""), width)
        right = name in _NUMBERS or name.startswith("accuracy")
        cells.append(text.rjust(width) if right else text.ljust(width))
    return f"{indent}{GAP.join(cells)}".rstrip()


def _row(run: "StoredRun") -> Row:
    """The run's cells by their columns' names, but for its own."""
    from isoloss.results.record import as_text
    from isoloss.stored_runs.run_filter import QUANTITIES, run_facts, values_of

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
        for record in run.last_records:
            if record.quantity in QUANTITIES[short]:
                column = f"{short} {record.settings['task']}" if "task" in record.settings else short
                # Of several, e.g. of the same model enlarged, the first is the plainest.
                row.setdefault(column, as_text(record.value, record.standard_error))
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
