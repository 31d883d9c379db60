"""An experiment: a figure or table, with its complete list of runs, its claims, and how it is drawn."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from typing import Any

import polars as pl

from isoloss.errors import BadInput, did_you_mean
from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.planned_run import Continued, CorpusPlan, PlannedRun
from isoloss.experiments.reference import PlannedReference
from isoloss.measurements.references import ControlQuantity, Untrained
from isoloss.models.lstm import LSTM
from isoloss.models.transformers import (
    Architecture,
    GPT2Transformer,
    PostLayerNormTransformer,
    PreLayerNormTransformer,
)
from isoloss.objectives.tokens import vocabulary_settings
from isoloss.panels import Panel, columns_of
from isoloss.results.record import Setting

WithTokens = PreLayerNormTransformer | PostLayerNormTransformer | GPT2Transformer | LSTM
"""The architectures whose number of tokens can be set."""

Facts = tuple[tuple[str, str], ...]
"""Names and values, in words."""


@dataclass(frozen=True)
class Experiment:
    """Everything that a figure or table depends on, and how its table of numbers becomes panels.

    `text` says what the paper shows and what is done here, one string per paragraph. `panels` receives the
    experiment's table (see `experiment_table`), which may lack rows and, if nothing has been measured,
    columns. `pilot_seeds` were used to choose the scale and must not be among the runs' seeds.
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
        if overlap := {run.first_seed for run in self.runs} & set(self.pilot_seeds):
            raise BadInput(f"seeds {sorted(overlap)} chose the scale and cannot be reported; take others")
        names = [run.name for run in self.runs] + [reference.name for reference in self.references]
        if len(set(names)) < len(names):
            raise BadInput(f"two runs of {self.name} have one name; name each for what it differs in")

    def drawn(self, table: pl.DataFrame) -> tuple[Panel, ...]:
        """Its panels; none of those that show measurements while there are none."""
        measures = bool(self.runs or self.references)
        return () if measures and table.is_empty() else self.panels(table)


def with_tokens(experiment: Experiment, tokens: int) -> Experiment:
    """The same with models of languages that have so many tokens, such as `WHOLE_TOKENIZER`.

    Students of a causal model have all of their teacher's as they are, and models of text their tokenizer's.
    Raises BadInput where a language has more words, or an architecture no number of tokens.
    """
    references = tuple(
        replace(
            reference,
            quantity=_control_with_tokens(reference.quantity, tokens),
        )
        if isinstance(reference.quantity, ControlQuantity)
        else reference
        for reference in experiment.references
    )
    runs = tuple(_run_with_tokens(run, tokens) for run in experiment.runs)
    return replace(experiment, runs=runs, references=references)


def _control_with_tokens(quantity: ControlQuantity, tokens: int) -> ControlQuantity:
    if not isinstance(quantity.control, Untrained):
        return quantity
    architecture = _with_tokens(quantity.control.architecture, tokens)
    return replace(quantity, control=replace(quantity.control, architecture=architecture))


def _run_with_tokens(run: PlannedRun, tokens: int) -> PlannedRun:
    if isinstance(run.language, CorpusPlan):
        return run
    vocabulary_settings(run.language.words, tokens)
    before = run.continues
    return replace(
        run,
        architecture=_with_tokens(run.architecture, tokens),
        continues=Continued(_run_with_tokens(before.run, tokens), before.step) if before else None,
    )


def _with_tokens(architecture: Architecture, tokens: int) -> Architecture:
    if not isinstance(architecture, WithTokens):
        raise BadInput(f"a {type(architecture).__name__} has no number of tokens to set; leave --tokens out")
    return architecture if architecture.tokens is not None else replace(architecture, tokens=tokens)


def only_named(experiment: Experiment, names: Sequence[str]) -> list[PlannedRun]:
    """The runs with these names, all when none is given. Raises BadInput for a name that no run has."""
    known = {run.name: run for run in experiment.runs}
    for name in names:
        if name not in known:
            near = did_you_mean(name, known) or f"; choose among {', '.join(known) or 'none'}"
            raise BadInput(f"no run of {experiment.name} is called {name!r}{near}")
    return [known[name] for name in names] if names else list(experiment.runs)


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


TEXTS, COUNTS = ("checkpoint", "sentence_"), ("_sentences", "_texts", "parameters", "left_out")
"""How the columns begin whose cells are no numbers, and end whose cells are whole ones."""


def _invented(names: Iterable[str], value: float) -> dict[str, Setting]:
    return {
        name: _cell(name.removeprefix("raw_"), value / place) for place, name in enumerate(names, start=1)
    }


def _cell(name: str, value: float) -> Setting:
    return "text" if name.startswith(TEXTS) else 100 if name.endswith(COUNTS) else value


def refuse_misspelt_columns(experiment: Experiment) -> None:
    """Raise BadInput, naming the nearest, if a claim or a panel reads a column that no planned run provides.

    Claims' statistics and panels are run on the `planned_table`; their results are discarded, and so are any
    other errors, which measured numbers need not cause.
    """
    table = planned_table(experiment)
    if table.is_empty():
        return
    rows = {name for run in experiment.runs for name in (run.name, *dict(run.labels).values())}
    judged = table.filter(pl.col("saturated")).partition_by("run", maintain_order=True)
    for claim in experiment.claims if judged else ():
        asker = f"the claim {claim.name} of {experiment.name}"
        with _misspelt_told(asker, table.columns, rows):
            claim.statistic(judged)
    panels: Sequence[Panel] = ()
    with _misspelt_told(f"a panel of {experiment.name}", table.columns, rows):
        panels = experiment.drawn(table)
    for panel in panels:
        for chart in panel.charts:
            for name in columns_of(chart):
                if not panel.data.is_empty() and name not in panel.data.columns:
                    raise _misspelt(f"the panel {panel.name} of {experiment.name}", name, panel.data.columns)


@contextmanager
def _misspelt_told(asker: str, known: Sequence[str], rows: Collection[Setting]) -> Iterator[None]:
    """Turn failed column look-ups into BadInput; a KeyError for one of `rows`, a run's name, is ignored."""
    try:
        yield
    except pl.exceptions.ColumnNotFoundError as error:
        quoted = re.search(r"['\"]([^'\"]+)['\"]", str(error))
        raise _misspelt(asker, quoted[1] if quoted else str(error), known) from error
    except KeyError as error:
        (name, *_) = error.args or (None,)
        if isinstance(name, str) and name not in rows:
            raise _misspelt(asker, name, known) from error
    except Exception:  # any other error is reported on real numbers, if at all
        pass


def _misspelt(asker: str, name: str, known: Sequence[str]) -> BadInput:
    near = did_you_mean(name, known) or f"; there are {', '.join(known)}"
    return BadInput(f"{asker} asks for a column {name!r} that nothing planned gives{near}")


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

    >>> from isoloss.pretraining.adamw import AdamW
    >>> from isoloss.models.transformers import laptop_shape
    >>> from isoloss.models.transformers import PreLayerNormTransformer
    >>> in_words(AdamW(3e-3, warm_up_steps=500))
    'AdamW (learning rate 0.003, warm up steps 500)'
    >>> in_words(PreLayerNormTransformer(laptop_shape(16)))
    'pre layer norm transformer (width 16, heads 1, layers 2, inner width 64)'
    """
    said = _settings_in_words(settings)
    name = re.sub("(?<=[a-z])(?=[A-Z][a-z])", " ", type(settings).__name__.removesuffix("Quantity"))
    name = name.lower() if " " in name else name
    return f"{name} ({said})" if said else name


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
