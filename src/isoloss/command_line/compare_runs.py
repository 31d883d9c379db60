"""`isoloss compare-runs`: what differs between two runs, sentence by sentence if possible."""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import Positional

from isoloss.command_line.show import quantity_in_words, refuse_without_specification, report_damage
from isoloss.command_line.terminal import heavy_imports, in_lines, print_table, starting
from isoloss.errors import BadInput

if TYPE_CHECKING:
    from isoloss.results.record import Record
    from isoloss.stored_runs.run_comparison import Difference
    from isoloss.stored_runs.stored_run import StoredRun

LANGUAGE = "language_digest"


@dataclass(frozen=True)
class CompareRunsOptions:
    """Compare two runs: the settings in which they differ, and the second's numbers minus the first's.

    Example: isoloss compare-runs 23e17441 f3c2ca48 --same-loss

    Numbers are compared at the steps that both runs have, or where both have the same loss. Numbers measured
    on the same sentences are compared sentence by sentence, which gives the standard error of the difference.
    """

    first: Annotated[Positional[str], tyro.conf.arg(metavar="RUN")]
    """A run: its folder, a prefix of its folder's name, or its name, with or without its experiment."""
    second: Annotated[Positional[str], tyro.conf.arg(metavar="OTHER_RUN")]
    """The other run, specified in the same way."""
    same_loss: bool = False
    """Compare where each run first reaches the lowest loss that both reach, which may lie between two
    steps."""
    at_loss: Annotated[float | None, tyro.conf.arg(metavar="NATS", help_behavior_hint="")] = None
    """Compare at this loss instead."""
    results: Path = Path("results")
    """Folder of results to search for the runs."""
    all: bool = False
    """Print every quantity at every step that both runs have, not only the main ones at the last."""
    json: bool = False
    """Print JSON, including the values of each part of the model."""


def compare_runs(options: CompareRunsOptions) -> int:
    """Compare them; returns 1 if something is damaged, which is named on stderr and left out, else 0."""
    with heavy_imports():
        from isoloss.stored_runs.stored_run import find_run

    runs = find_run(options.first, options.results), find_run(options.second, options.results)
    for run in runs:
        refuse_without_specification(run)
    if runs[0].folder.resolve() == runs[1].folder.resolve():
        raise BadInput(f"{options.first!r} and {options.second!r} are one run, {runs[0].folder}; name two")
    # Only now, since torch takes seconds to import.
    with starting("compare-runs"):
        from isoloss.stored_runs.run_comparison import (
            differences_at_loss,
            differences_at_steps,
            different_settings,
            not_compared,
        )

    code = report_damage(runs)
    changed = different_settings(*runs)
    one_language = runs[0].specification.get(LANGUAGE) == runs[1].specification.get(LANGUAGE)
    if (options.same_loss or options.at_loss is not None) and not one_language:
        raise BadInput(f"{_OTHER_LANGUAGES}, and no loss of theirs is the same; leave the loss out")
    for run in runs:
        if run.state == "unfinished":
            print(f"{run.folder} is {run.state_in_words}; what both have is compared", file=sys.stderr)
    loss: float | None = None
    if options.same_loss or options.at_loss is not None:
        matched, found = differences_at_loss(*runs, options.at_loss)
        loss = matched.points[0].loss.value
    else:
        found = differences_at_steps(*runs)
    lacking = not_compared(*runs, found, loss)
    if options.json:
        print(json.dumps(_as_json(runs, changed, found, lacking, loss), ensure_ascii=False))
        return code
    _print(runs, changed, found, loss, every=options.all)
    wholes = (each for each in lacking if "group" not in each.settings)
    if names := ", ".join(dict.fromkeys(map(quantity_in_words, wholes))):
        where = "at one step" if loss is None else "on both sides of this loss"
        print(in_lines(f"not compared: {names}; not measured for both runs {where}"))
    if not one_language:
        print(f"{_OTHER_LANGUAGES}: only their settings are compared.")
    return code


_OTHER_LANGUAGES = "the runs are of different languages, so nothing is measured on the same sentences"


def _print(
    runs: "tuple[StoredRun, StoredRun]",
    changed: list[tuple[str, Any, Any]],
    found: list["Difference"],
    loss: float | None,
    *,
    every: bool,
) -> None:
    ways = ([run.name[:8] for run in runs], [run.name for run in runs], [str(run.folder) for run in runs])
    # Folders of copies may have one name.
    names = next(each for each in ways if each[0] != each[1])
    wholes = [each for each in found if "group" not in each.record.settings]
    main = _main(wholes)
    if wholes:
        print(in_lines(_conclusion(list(map(_called, runs, names)), main, loss)))
    if changed:
        rows = [(path, *("" if each is None else str(each) for each in both)) for path, *both in changed]
        headed = ("setting", *names)
        print_table(headed, rows, left=headed, title="settings that differ", title_justify="left")
    else:
        print("no setting differs")
    if not wholes:
        print("nothing is measured for both runs on the same sentences at the same step")
        return
    in_turn = sorted(wholes, key=lambda each: each.steps)
    named = [(quantity_in_words(each.record), each) for each in in_turn] if every else list(main.items())
    at = {each.steps for _, each in named}
    title = _title(names, at) + ("" if loss is None else f", {_at(loss)}")
    steps = len(at) > 1
    headed = (*["step"] * steps, "quantity", *names, "difference")
    numbers = [
        (*[_steps(each.steps)] * steps, name, each.first, each.second, each.difference)
        for name, each in named
    ]
    print_table(headed, numbers, left=("quantity",), title=title, title_justify="left")
    if len(wholes) > len(named):
        print(f"{len(wholes) - len(named)} more rows, of other quantities and steps, with --all")
    if unpaired := list(dict.fromkeys(name for name, each in named if not each.paired)):
        why = "no values per sentence are stored, so the two errors are taken as independent"
        print(in_lines(f"not paired: {', '.join(unpaired)}; {why}"))


_WRITTEN = {"kl": "KL"}

CLEAR = 2.0
"""Standard errors beyond which a difference is called one."""


def _main(differences: Sequence["Difference"]) -> dict[str, "Difference"]:
    """Loss, KL, trace and each task's accuracy, each at the last step of both; else what there is."""
    from isoloss.stored_runs.run_filter import QUANTITIES
    from isoloss.stored_runs.stored_run import measurement_key

    found: dict[str, Difference] = {}
    for short, quantities in QUANTITIES.items():
        for quantity, each in product(quantities, differences):
            if each.record.quantity == quantity:
                task = each.record.settings.get("task")
                name = _WRITTEN.get(short, short) + ("" if task is None else f" on {task}")
                # Of several, e.g. of the same model enlarged, the first is the plainest.
                if measurement_key(each.record) == measurement_key(found.get(name, each).record):
                    found[name] = each
    if not found:
        last = max((each.steps for each in differences), default=(0.0, 0.0))
        found = {quantity_in_words(each.record): each for each in differences if each.steps == last}
    return found


def _called(run: "StoredRun", name: str) -> str:
    """An experiment's name for it, with that by which the two differ; that alone if it is of none."""
    of_experiment = next(iter(run.names.values()), "")
    return f"{of_experiment} ({name})" if of_experiment else name


def _conclusion(names: Sequence[str], main: Mapping[str, "Difference"], loss: float | None) -> str:
    """Which of the two has the lower loss, trace and so on, beyond two standard errors, and where.

    A number known only at an earlier step than the last is given with that step.
    """
    differences, last = [], max(each.steps for each in main.values())
    for short, each in main.items():
        value, error = each.difference.value, each.difference.standard_error
        unit = "" if each.record.unit == "fraction" else f" {each.record.unit}"
        number = f"{each.difference}{unit}".rstrip()
        number += "" if each.steps == last else f", at step {_steps(each.steps)}"
        if abs(value) > CLEAR * error:
            differences.append(f"a {'higher' if value > 0 else 'lower'} {short} ({number})")
        else:
            differences.append(f"no clear difference in {short} ({number})")
    where = f"at step {_steps(last)}" if loss is None else _at(loss)
    return f"{where.capitalize()}, compared with {names[0]}, {names[1]} has {'; '.join(differences)}."


def _at(loss: float) -> str:
    return f"at a loss of {loss:.5g} nats"


def _title(names: Sequence[str], at: Collection[tuple[float, float]]) -> str:
    """What is taken from what, and at which steps if all rows are of the same."""
    if len(at) != 1:
        return f"{names[1]} minus {names[0]}"
    ((first, second),) = at
    if first == second:
        return f"{names[1]} minus {names[0]}, at step {first:,.0f}"
    return f"{names[1]} at step {second:,.0f} minus {names[0]} at step {first:,.0f}"


def _steps(steps: tuple[float, float]) -> str:
    return " and ".join(dict.fromkeys(f"{step:,.0f}" for step in steps))


def _as_json(
    runs: "tuple[StoredRun, StoredRun]",
    changed: list[tuple[str, Any, Any]],
    found: list["Difference"],
    lacking: list["Record"],
    loss: float | None,
) -> dict[str, Any]:
    from isoloss.stored_runs.stored_run import IDENTIFYING

    def of(record: "Record") -> dict[str, Any]:
        identifying = {key: record.settings.get(key) for key in IDENTIFYING}
        return {"quantity": record.quantity, "unit": record.unit, **identifying}

    return {
        "runs": [{"run": run.name, "folder": str(run.folder), "names": run.names} for run in runs],
        "settings": [{"setting": path, "first": here, "second": there} for path, here, there in changed],
        "loss": loss,
        "differences": [
            {
                **of(each.record),
                "steps": list(each.steps),
                "first": asdict(each.first),
                "second": asdict(each.second),
                "difference": asdict(each.difference),
                "paired": each.paired,
            }
            for each in sorted(found, key=lambda each: each.steps)
        ],
        "not_compared": [of(record) for record in lacking],
    }
