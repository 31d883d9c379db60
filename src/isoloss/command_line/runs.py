"""`isoloss runs`: a list of runs with their numbers."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.table import Table
from tyro.conf import Positional

from isoloss.command_line.show import report_damage, run_as_json
from isoloss.command_line.terminal import starting, table_console

if TYPE_CHECKING:
    from isoloss.stored_runs.stored_run import StoredRun

SHORTEST_NAME = 8
"""Characters of a folder's name that are shown; `isoloss show` and `compare` accept the start of a name."""

_OFTEN_ALIKE = ("architecture", "rule", "objective")
_NUMBERS = ("seed", "steps", "loss", "trace")


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
    if rows:
        table_console().print(_table(rows, alike))
    # What all runs share is printed once instead of as a column.
    if older := sum(is_older(run.folder) for run in chosen):
        print(
            f"{older} of them have records without digests, from an older isoloss: damage cannot be detected"
        )
    print(", ".join([f"{len(chosen)} of {len(every)} runs", *(rows[0][name] for name in alike)]))
    return code


def _table(rows: list[dict[str, str]], without: list[str]) -> Table:
    """A column for each value that any run has."""
    table = Table()
    columns = list(dict.fromkeys(name for row in rows for name in row if name not in without))
    for name in columns:
        right = name in _NUMBERS or name.startswith("accuracy")
        table.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(row.get(name, "") for name in columns))
    return table


def _row(run: "StoredRun") -> dict[str, str]:
    """The run's cells by their columns' names."""
    from isoloss.results.record import as_text
    from isoloss.stored_runs.run_filter import QUANTITIES, run_facts, values_of

    def one(key: str) -> str:
        found = values_of(facts, key)
        return str(found[0]) if found else ""

    facts = run_facts(run)
    shape = [(name, values_of(facts, name)) for name in ("width", "hidden", "layers")]
    sizes = [f"{name} {found[0]}" for name, found in shape if found]
    row = {
        "name": _name(run),
        "run": run.name[:SHORTEST_NAME],
        "architecture": ", ".join([one("architecture"), *sizes]),
        "rule": one("update_rule"),
        "objective": one("objective"),
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
    return {name: cell for name, cell in row.items() if cell}


def _name(run: "StoredRun") -> str:
    """The run's experiments with their names for it, one line each; its plan's name if it has none."""
    from isoloss.stored_runs.stored_run import full_names

    return "\n".join(full_names(run)) or str(run.plan.get("name", ""))


def _numbers_as_numbers(run: "StoredRun") -> tuple[bool, list[Any]]:
    """A key that sorts runs without a name last, and width-9 before width-10."""
    parts = re.split(r"(\d+)", _name(run))
    # Every other part is a number, so that strings are compared only with strings.
    return not _name(run), [int(part) if place % 2 else part for place, part in enumerate(parts)]
