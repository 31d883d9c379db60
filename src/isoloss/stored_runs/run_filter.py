"""Selecting runs by conditions on their settings and numbers: rule=AdamW, width>=48, loss<2.1."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isoloss.errors import BadInput, did_you_mean
from isoloss.results.record import Record, Setting, settings_by_path
from isoloss.stored_runs.stored_run import StoredRun, short_names

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

QUANTITIES = {
    "loss": ("masked_loss_sentence_averaged", "next_word_loss_sentence_averaged"),
    "kl": ("masked_kl_sentence_averaged", "next_word_kl_sentence_averaged"),
    "trace": ("fisher_trace",),
    "accuracy": ("linear_probe_accuracy", "fine_tuning_best_accuracy"),
}
"""Short names of quantities; of several that a run has of one, the first counts."""


def records_of(short: str, records: Sequence[Record]) -> list[Record]:
    """Those of the quantities with that short name, of the plainest quantity first."""
    return [record for quantity in QUANTITIES[short] for record in records if record.quantity == quantity]


@dataclass(frozen=True)
class Condition:
    """A key, one of = != < <= > >=, and a value.

    >>> condition("width>=48")
    Condition(key='width', comparison='>=', value='48')
    """

    key: str
    comparison: str
    value: str

    def holds(self, values: Sequence[Setting]) -> bool:
        """Whether it holds for one of the values, != for all: as numbers if both are, otherwise as text."""
        return (all if self.comparison == "!=" else any)(self._holds(value) for value in values)

    def _holds(self, value: Setting) -> bool:
        compare = _COMPARISONS[self.comparison]
        number = _number(self.value)
        if isinstance(value, int | float) and not isinstance(value, bool) and number is not None:
            return compare(value, number)
        if self.comparison not in ("=", "!="):
            return False
        return compare(str(value).lower(), self.value.lower())


def condition(text: str) -> Condition:
    """Parse a condition. Raises BadInput for a text that is not one."""
    parts = re.fullmatch(r"\s*([\w.\- ]+?)\s*(!=|<=|>=|=|<|>)(?![=<>])\s*(.+?)\s*", text)
    if parts is None:
        raise BadInput(
            f"{text!r} is no condition; write a key, one of = != < <= > >=, and a value: width>=48"
        )
    return Condition(*parts.groups())


def runs_where(runs: Sequence[StoredRun], conditions: Sequence[Condition]) -> list[StoredRun]:
    """The runs that satisfy every condition.

    Raises BadInput for a key that no run has, and for an order of what is not numbers.
    """
    facts = [run_facts(run) for run in runs]
    for each in conditions:
        _refuse_unknown(each.key, facts)
        _refuse_order_of_texts(each, facts)
    return [
        run
        for run, known in zip(runs, facts, strict=True)
        if all(each.holds(values_of(known, each.key)) for each in conditions)
    ]


def sorted_runs(runs: Sequence[StoredRun], key: str, descending: bool) -> list[StoredRun]:
    """The runs by value of a key, numbers before texts or, `descending`, after them, those without it last.

    Raises BadInput as above.
    """
    facts = {run.folder: run_facts(run) for run in runs}
    _refuse_unknown(key, list(facts.values()))
    values = {run.folder: next(iter(values_of(facts[run.folder], key)), None) for run in runs}
    having = [run for run in runs if values[run.folder] is not None]
    without = [run for run in runs if values[run.folder] is None]

    def order(run: StoredRun) -> tuple[bool, Any]:
        value = values[run.folder]
        return isinstance(value, str), value

    return sorted(having, key=order, reverse=descending) + without


def run_facts(run: StoredRun) -> dict[str, list[Setting]]:
    """All that conditions can refer to: settings by their dotted paths, the run's names, its last numbers."""
    facts: dict[str, list[Setting]] = {
        "run": [run.name],
        "state": [run.state],
        "experiment": list(run.names),
        "name": list[Setting](short_names(run)),
        "step": [run.step],
    }
    for path, value in settings_by_path(run.specification).items():
        facts[path] = [value]
    for record in run.last_records:
        if "group" not in record.settings:
            raw = "raw_" if record.settings.get("weights") == "raw" else ""
            facts.setdefault(raw + record.quantity, []).append(record.value)
    for short in QUANTITIES:
        plainest: dict[Setting, Setting] = {}
        for record in records_of(short, run.last_records):
            plainest.setdefault(record.settings.get("task"), record.value)
        if plainest:
            facts[short] = list(plainest.values())
    return facts


def values_of(facts: Mapping[str, list[Setting]], key: str) -> list[Setting]:
    """The values of a key: a whole path or the end of one, in which case the shortest path counts.

    >>> values_of({"architecture.shape.width": [64], "seed": [1]}, "width")
    [64]
    """
    key = {"rule": "update_rule"}.get(key, key)
    if key in facts:
        return facts[key]
    paths = sorted((path for path in facts if path.endswith(f".{key}")), key=lambda path: path.count("."))
    return facts[paths[0]] if paths else []


def _refuse_unknown(key: str, facts: Sequence[Mapping[str, list[Setting]]]) -> None:
    known = sorted({path.rsplit(".", 1)[-1] for of_run in facts for path in of_run})
    if key not in known and not any(values_of(of_run, key) for of_run in facts):
        near = did_you_mean(key, known) or f"; choose among {', '.join(known)}"
        raise BadInput(f"no run has {key!r}{near}")


def _refuse_order_of_texts(asked: Condition, facts: Sequence[Mapping[str, list[Setting]]]) -> None:
    if asked.comparison in ("=", "!="):
        return
    values = [value for of_run in facts for value in values_of(of_run, asked.key)]
    if not any(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        raise BadInput(f"no run has a number as {asked.key}, which < and > compare; use = or !=")
    if _number(asked.value) is None:
        raise BadInput(
            f"{asked.key} is a number, and {asked.value!r} is none; write one, and each condition on its own"
        )


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
