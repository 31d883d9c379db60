"""A table with all of an experiment's columns, before anything is measured."""

from collections import Counter
from collections.abc import Iterable

import polars as pl

from isoloss.experiments.experiment import Experiment
from isoloss.results.record import Setting

TEXTS = ("checkpoint", "sentence_")
"""How the columns begin whose cells are no numbers."""
COUNTS = ("_sentences", "_texts", "parameters", "left_out")
"""How the columns end whose cells are whole numbers."""


def planned_table(experiment: Experiment) -> pl.DataFrame:
    """A table with all of the experiment's columns and made-up numbers, distinct and decreasing along a run.

    Of runs with the same labels and measurements, it includes two. Code that reads columns by name can be
    tested on it before anything is measured.
    """
    rows: list[dict[str, Setting]] = []
    alike: Counter[object] = Counter()
    for run in experiment.runs:
        measured = tuple((each.column_names, each.steps) for each in run.measured)
        kind = (run.labels, run.checkpoint_steps, measured)
        alike[kind] += 1
        if alike[kind] > 2:
            continue
        place: dict[str, Setting] = {"run": run.name, "seed": run.first_seed, "folder": run.digest[:16]}
        for number, step in enumerate(run.checkpoint_steps, start=1):
            if names := [name for of_one, steps in measured if step in steps for name in of_one]:
                at: dict[str, Setting] = {"step": step, "saturated": step >= run.saturated_from}
                value = 1 / (1 + number + alike[kind] / 10)
                rows.append(place | at | {"complete": True} | dict(run.labels) | _invented(names, value))
    for reference in experiment.references:
        place = {"run": reference.name, "seed": None, "step": None, "saturated": reference.judged}
        names = list(reference.quantity.column_names)
        rows.append(place | {"complete": True} | dict(reference.labels) | _invented(names, 0.5))
    return pl.DataFrame(rows, infer_schema_length=None)


def _invented(names: Iterable[str], value: float) -> dict[str, Setting]:
    return {
        name: _cell(name.removeprefix("raw_"), value / place) for place, name in enumerate(names, start=1)
    }


def _cell(name: str, value: float) -> Setting:
    return "text" if name.startswith(TEXTS) else 100 if name.endswith(COUNTS) else value
