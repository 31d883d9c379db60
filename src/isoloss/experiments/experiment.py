"""An experiment: a figure or table, with its complete list of runs, its claims, and how it is drawn."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import nn

from isoloss.errors import BadInput, did_you_mean
from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.languages import LanguagePlan
from isoloss.experiments.planned_run import CorpusPlan, Labels, PlannedRun
from isoloss.languages.language import Facts
from isoloss.measurements.accuracy import AccuracyQuantity
from isoloss.measurements.quantity import Quantity, Subject
from isoloss.measurements.references import UNTRAINED, WORDS, ControlQuantity, Untrained, Words
from isoloss.models.transformers import Architecture
from isoloss.objectives.masked import MaskedObjective
from isoloss.panels import Chart, Panel
from isoloss.pretraining.specification import settings_digest
from isoloss.progress import Progress
from isoloss.results.measurement_store import REFERENCES_FOLDER, Measurements
from isoloss.results.record import Record


@dataclass(frozen=True)
class PlannedReference:
    """A row of an experiment's table that belongs to a language rather than to a run.

    `judged` says whether claims are judged on it, too, in addition to the runs.
    """

    name: str
    language: LanguagePlan | CorpusPlan
    quantity: Quantity
    labels: Labels = ()
    judged: bool = False

    @cached_property
    def digest(self) -> str:
        """The name of its measurement, among all references of a folder of results."""
        return settings_digest((self.quantity, self.language.digest))[:16]

    def records(self, output: Path) -> list[Record]:
        """Its records; none while it has not been measured, or where its file is damaged."""
        return _stored(output).intact(self.digest)

    def damage(self, output: Path) -> str:
        """What is wrong with its file, with the consequence; empty if nothing is."""
        damage = _stored(output).damage(self.digest)
        return damage and f"{damage}; it is measured again"

    def carry_out(self, output: Path, device: str, progress: Progress) -> tuple[str, ...]:
        """Measure it once; as a job, it has nothing to report.

        It is measured of a model that the quantity itself builds, or of none: the one that it is given has
        nothing but its device.
        """
        if self.records(output):
            return ()
        language = self.language.language(output, progress)
        if not isinstance(language, self.quantity.sources):
            raise BadInput(
                f"{type(self.quantity).__name__} is no reference of a {type(language).__name__}; "
                "choose another"
            )
        objective = MaskedObjective()
        examples = self.quantity.draw(language, objective, progress)
        subject = Subject("", objective, {}, language)
        nothing = nn.ParameterList([torch.empty(0, device=device)])
        measured = self.quantity.measure(nothing, examples, subject, progress)
        _stored(output).write(self.digest, measured.records)
        return ()


def _stored(output: Path) -> Measurements:
    return Measurements(output / REFERENCES_FOLDER)


def control_references(
    language: LanguagePlan, probe: AccuracyQuantity, architectures: Sequence[tuple[str, Architecture]]
) -> tuple[PlannedReference, ...]:
    """A row for the words, and one for each named architecture untrained, for an experiment's references."""
    words = ControlQuantity(probe, Words(), "words_accuracy")
    untrained = (
        (f"{UNTRAINED} {name}", ControlQuantity(probe, Untrained(each), "untrained_accuracy"))
        for name, each in architectures
    )
    return tuple(PlannedReference(name, language, each) for name, each in ((WORDS, words), *untrained))


@dataclass(frozen=True)
class Experiment:
    """Everything that a figure or table depends on, and how its table of numbers becomes panels.

    `text` says what the paper shows and what is done here, one string per paragraph. `panels` receives the
    experiment's table (see `experiment_table`), which has rows, but may lack some, and columns that have not
    been measured yet. `pilot_seeds` were used to choose the scale and must not be among the runs' seeds.
    `paper_numbers` are those given in the paper's text. `registered` is the commit that fixed the claims.
    The pictures of experiments with a `gallery` are the first that a site shows, in that order. `title` is
    the part of `question` that `panels` and `claims` answer.
    """

    name: str
    title: str
    text: tuple[str, ...]
    runs: tuple[PlannedRun, ...]
    panels: Callable[[pl.DataFrame], tuple[Panel, ...]]
    references: tuple[PlannedReference, ...] = ()
    claims: tuple[Claim, ...] = ()
    pilot_seeds: tuple[int, ...] = ()
    settings: Facts = ()
    paper_numbers: Facts = ()
    question: Question = Question.MATERIAL
    registered: str = ""
    gallery: int | None = None

    def __post_init__(self) -> None:
        for name in ("text", "runs", "claims"):
            if not isinstance(getattr(self, name), tuple):
                raise BadInput(
                    f"{name} of {self.name} must be a tuple; of one thing: {name}=(...,), with a comma"
                )
        question: object = self.question
        if not isinstance(question, Question):
            known = ", ".join(f"Question.{each.name}" for each in Question)
            raise BadInput(f"question of {self.name} cannot be {question!r}; take one of {known}")
        if not callable(self.panels):
            raise BadInput(
                f"panels of {self.name} is a function from a table to panels, not {self.panels!r:.60}"
            )
        if overlap := {run.first_seed for run in self.runs} & set(self.pilot_seeds):
            raise BadInput(
                f"{self.name}: seeds {sorted(overlap)} chose the scale and cannot be reported; take others"
            )
        names = [run.name for run in self.runs] + [reference.name for reference in self.references]
        if len(set(names)) < len(names):
            raise BadInput(f"two runs of {self.name} have one name; name each for what it differs in")
        claims = [claim.name for claim in self.claims]
        if twice := next((name for name in claims if claims.count(name) > 1), ""):
            raise BadInput(f"two claims of {self.name} are called {twice}; name each for what it says")

    def drawn(self, table: pl.DataFrame) -> tuple[Panel, ...]:
        """Its panels, which show no withdrawn claims; none of measurements while there are none.

        Raises BadInput for what is no panel, and whatever `panels` raises.
        """
        if (self.runs or self.references) and table.is_empty():
            return ()
        panels = self.panels(table)
        refuse_what_is_no_panel(panels, self.name)
        withdrawn = {claim.name for claim in self.claims if claim.withdrawn}
        return tuple(
            replace(panel, shows=tuple(name for name in panel.shows if name not in withdrawn))
            for panel in panels
        )


def refuse_what_is_no_panel(panels: object, experiment: str) -> None:
    """Raise BadInput for what is no tuple of panels, each with a tuple of charts and a table."""
    if not isinstance(panels, tuple):
        raise BadInput(f"panels of {experiment} returned {panels!r:.40}; let it return a tuple of panels")
    for panel in panels:
        if not isinstance(panel, Panel):
            raise BadInput(
                f"panels of {experiment} returned a {type(panel).__name__} in its tuple; make it a Panel"
            )
        _refuse_no_charts(f"the panel {panel.name} of {experiment}", panel.charts, panel.data)


def _refuse_no_charts(asker: str, charts: object, data: object) -> None:
    if not isinstance(charts, tuple):
        kind = type(charts).__name__
        raise BadInput(f"{asker} has charts={kind}, which are a tuple; of one: charts=(...,), with a comma")
    for each in charts:
        if not isinstance(each, Chart):
            kind = type(each).__name__
            raise BadInput(f"{asker} has a {kind} among its charts; give Lines, Dots or another chart")
    if not isinstance(data, pl.DataFrame):
        kind = type(data).__name__
        raise BadInput(f"{asker} has data of another kind, {kind}; give it the table, or some of its rows")


def only_named(experiment: Experiment, names: Sequence[str]) -> list[PlannedRun]:
    """The runs with these names, all when none is given. Raises BadInput for a name that no run has."""
    known = {run.name: run for run in experiment.runs}
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        every = list(known)
        listed = f"its {len(every)} runs are {every[0]} to {every[-1]}" if every else "it has none"
        near = did_you_mean(unknown, every) or f"; {listed}"
        raise BadInput(f"no run of {experiment.name} is called {unknown!r}{near}")
    return [known[name] for name in names] if names else list(experiment.runs)


MOST_LISTED = 12
TASK = "downstream task"
PARTS = ("shape", "settings", "probe", "sizes")
"""Fields of settings whose name says nothing beside those of their fields."""


def facts_of(experiment: Experiment) -> Facts:
    """Its models, training, tasks and measurements, then the experiment's settings."""
    quantities = [each.quantity for run in experiment.runs for each in run.measured]
    found = (
        ("models", [in_words(run.architecture) for run in experiment.runs]),
        ("training", [_training(run) for run in experiment.runs]),
        ("objective", [in_words(run.objective) for run in experiment.runs]),
        (TASK, [_task(quantity) for quantity in quantities]),
        ("measured", [in_words(quantity) for quantity in quantities]),
    )
    stated = tuple((name, "; ".join(_listed(filter(None, words)))) for name, words in found)
    return (*(fact for fact in stated if fact[1]), *experiment.settings)


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

    >>> from isoloss.models.transformers import laptop_shape
    >>> from isoloss.pretraining.descent import AdamW
    >>> from isoloss.models.transformers import PreLayerNormTransformer
    >>> in_words(AdamW(3e-3, warm_up_steps=500))
    'AdamW (learning rate 0.003, warm up steps 500)'
    >>> in_words(PreLayerNormTransformer(laptop_shape(16)))
    'pre layer norm transformer (width 16, heads 1, layers 2, inner width 64)'
    >>> from isoloss.measurements.on_sentences.traces import TraceQuantity
    >>> in_words(TraceQuantity(sentences=64, seed=1))
    'trace (sentences 64, seed 1)'
    """
    differing = _settings_in_words(settings)
    of_class = type(settings).__name__
    name = re.sub("(?<=[a-z])(?=[A-Z][a-z])", " ", of_class.removesuffix("Quantity"))
    name = name.lower() if " " in name or name != of_class else name  # Muon and Dyck are names
    return f"{name} ({differing})" if differing else name


def _settings_in_words(settings: Any) -> str:
    parts = []
    for each in _chosen(settings):
        value = getattr(settings, each.name)
        if each.name in PARTS:
            parts.append(_settings_in_words(value))
        elif is_dataclass(value):
            parts.append(in_words(value))
        else:
            shown = str(value) if each.name == "seed" else _value(value)
            parts.append(f"{each.name.replace('_', ' ')} {shown}")
    return ", ".join(filter(None, parts))


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
