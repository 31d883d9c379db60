"""An experiment: a figure or table as its complete list of runs, its claims, and how it is drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from isoloss.errors import BadInput, did_you_mean
from isoloss.experiments.claims import Claim
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.reference import PlannedReference
from isoloss.panels import Panel

Facts = tuple[tuple[str, str], ...]
"""Names and values, in words."""


class Question(StrEnum):
    """What is asked of language models of one pre-training loss: experiments and their claims answer it."""

    LOSS = "Does the loss converge?"
    LATER = "Is later better?"
    LARGER = "Is larger better?"
    ALGORITHM = "Does the algorithm matter?"
    FLATNESS = "Is flatter better?"
    THEORY = "Does the theory hold?"
    MATERIAL = "What are the languages and models?"


@dataclass(frozen=True)
class Experiment:
    """Everything that one figure or table depends on, and how its table of numbers becomes panels.

    `text` says what the paper shows and what is done here, a string a paragraph. `panels` is handed the
    experiment's table (see `experiment_table`), which may lack rows and, where nothing has been measured,
    columns. `pilot_seeds` chose the scale and must not be among the runs' seeds. `paper_numbers` are those
    that the paper's text gives. `title` asks what `panels` and `claims` answer, a part of `question`.
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

    def __post_init__(self) -> None:
        if overlap := {run.first_seed for run in self.runs} & set(self.pilot_seeds):
            raise BadInput(f"seeds {sorted(overlap)} chose the scale and cannot be reported; take others")
        names = [run.name for run in self.runs] + [reference.name for reference in self.references]
        if len(set(names)) < len(names):
            raise BadInput(f"two runs of {self.name} have one name; name each for what it differs in")


def only_named(experiment: Experiment, names: Sequence[str]) -> list[PlannedRun]:
    """The runs with these names, all when none is given. Raises BadInput for a name that no run has."""
    known = {run.name: run for run in experiment.runs}
    for name in names:
        if name not in known:
            near = did_you_mean(name, known) or f"; choose among {', '.join(known) or 'none'}"
            raise BadInput(f"no run of {experiment.name} is called {name!r}{near}")
    return [known[name] for name in names] if names else list(experiment.runs)
