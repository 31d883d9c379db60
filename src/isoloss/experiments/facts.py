"""What an experiment trains and measures, in words, read off its plan."""

import re
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from isoloss.experiments.experiment import Experiment, Facts
from isoloss.experiments.planned_run import PlannedRun

MOST_LISTED = 12
TASK = "downstream task"
PARTS = ("shape", "settings", "probe", "sizes")
"""Fields of settings whose own name says nothing beside those of their fields."""


def facts_of(experiment: Experiment) -> Facts:
    """Its models, training, tasks and measurements, then the experiment's own settings."""
    quantities = [each.quantity for run in experiment.runs for each in run.measured]
    found = (
        ("models", [in_words(run.architecture) for run in experiment.runs]),
        ("training", [_training(run) for run in experiment.runs]),
        ("objective", [in_words(run.objective) for run in experiment.runs]),
        (TASK, [_task(quantity) for quantity in quantities]),
        ("measured", [in_words(quantity) for quantity in quantities]),
    )
    told = tuple((name, "; ".join(_listed(filter(None, words)))) for name, words in found)
    return (*(fact for fact in told if fact[1]), *experiment.settings)


def _listed(words: Iterable[str]) -> list[str]:
    distinct = list(dict.fromkeys(words))
    left = len(distinct) - MOST_LISTED
    return distinct if left <= 0 else [*distinct[:MOST_LISTED], f"and {left} more"]


def _training(run: PlannedRun) -> str:
    average = f", averaged over {run.averaging_horizon:,}" if run.averaging_horizon else ""
    start = f" from step {run.continues.step:,} of another run" if run.continues else ""
    return f"{in_words(run.update_rule)}: {run.steps:,} steps of {run.batch_size:,}{average}{start}"


def _task(quantity: object) -> str:
    task = getattr(getattr(quantity, "examples", quantity), "task", "")
    return task if isinstance(task, str) else str(getattr(task, "name", ""))


def in_words(settings: Any) -> str:
    """A dataclass of settings as its name and those that differ from their defaults.

    >>> from isoloss.pretraining.adamw import AdamW
    >>> from isoloss.models.shapes import laptop_shape
    >>> from isoloss.models.transformers import PreLayerNormTransformer
    >>> in_words(AdamW(3e-3, warm_up_steps=500))
    'AdamW (learning rate 0.003, warm up steps 500)'
    >>> in_words(PreLayerNormTransformer(laptop_shape(16)))
    'pre layer norm transformer (width 16, heads 1, layers 2, inner width 64)'
    """
    said = _said(settings)
    name = re.sub("(?<=[a-z])(?=[A-Z][a-z])", " ", type(settings).__name__.removesuffix("Quantity"))
    name = name.lower() if " " in name else name
    return f"{name} ({said})" if said else name


def _said(settings: Any) -> str:
    told = []
    for each in _chosen(settings):
        value = getattr(settings, each.name)
        if each.name in PARTS:
            told.append(_said(value))
        elif is_dataclass(value):
            told.append(in_words(value))
        else:
            shown = str(value) if each.name == "seed" else _value(value)
            told.append(f"{each.name.replace('_', ' ')} {shown}")
    return ", ".join(filter(None, told))


def _chosen(settings: Any) -> list[Field[Any]]:
    if not is_dataclass(settings):
        return []
    return [
        each
        for each in fields(settings)
        if each.compare and (each.default is MISSING or getattr(settings, each.name) != each.default)
    ]


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return " to ".join(map(_value, value)) if len(value) == 2 else ", ".join(map(_value, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return in_words(value) if is_dataclass(value) else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
