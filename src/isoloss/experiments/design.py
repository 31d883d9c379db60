"""What an experiment's file exports, and which experiments are asked for: built in, or in a user's file."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import polars as pl

from isoloss.errors import BadInput
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_names import SUITE, experiment_names, language_refused, refuse_unknown
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.misspelt_names import refuse_misspelt_names
from isoloss.experiments.model_tokens import with_tokens
from isoloss.experiments.scale import Scale, refuse_too_few_sentences, with_language
from isoloss.experiments.shared.language_runs import UNJUDGED, ScaleName
from isoloss.languages.language_file import read_language
from isoloss.languages.pcfg import named_task
from isoloss.measurements.accuracy import AccuracyQuantity
from isoloss.pretraining.specification import Compute
from isoloss.progress import silent

EXPORTED = "EXPERIMENT"
"""The name under which an experiment's file exports its `Design`."""

Seeds = tuple[int, ...]


@dataclass(frozen=True)
class Picture:
    """The panel of an experiment that the documentation shows, and what it shows."""

    panel: str
    shows: str


@dataclass(frozen=True)
class Design:
    """An experiment at any scale, and what the commands and the documentation have to know of it.

    `plan` makes the experiment at a scale. `registered` is the commit whose docs/claims.md has the claims as
    they are judged; it is older than the first run with a seed that is reported, and is never changed after
    it. `seeds` replace the scale's where claims were registered anew; `earlier_seeds` are those of earlier
    rounds, of which claims were left open or changed. `takes_a_language`: the scale's grammar may be replaced
    by a user's language; `needs_room`: only by one with a task that neither a guess nor the words alone can
    solve. `headline` is the claim that answers its title, where that is not the first effect. `findings` are
    what its table says in sentences, of an experiment without claims. `caution` is said beside the shipped
    numbers, where they would be read for more than they say.

    >>> from isoloss.experiments.scale import scale_named
    >>> builtin_designs()["figure-9"].at(scale_named("smoke")).title
    'Does the KL divergence converge, as the loss does?'
    """

    plan: Callable[[Scale], Experiment]
    registered: str = ""
    seeds: Mapping[ScaleName, Seeds] = field(default_factory=dict)
    earlier_seeds: Mapping[ScaleName, tuple[Seeds, ...]] = field(default_factory=dict)
    takes_a_language: bool = False
    needs_room: bool = False
    picture: Picture | None = None
    headline: str = ""
    findings: Callable[[pl.DataFrame], tuple[str, ...]] | None = None
    of_the_paper: bool = False
    caution: str = ""

    def __post_init__(self) -> None:
        for scale, seeds in self.seeds.items():
            if scale not in get_args(ScaleName):
                raise BadInput(
                    f"seeds are given for a scale {scale!r}; there are {', '.join(get_args(ScaleName))}"
                )
            numbers = isinstance(seeds, tuple) and all(isinstance(seed, int) for seed in seeds)
            if not numbers or min(seeds, default=-1) < 0 or len(set(seeds)) < len(seeds):
                raise BadInput(
                    f"the seeds at {scale} must be a tuple of different whole numbers from 0 on, such as "
                    f"(1, 2), not {seeds!r}"
                )

    def at(self, scale: Scale) -> Experiment:
        """The experiment at a scale. Raises BadInput if two quantities of a run give one column."""
        scale = scale.with_seeds(self.seeds.get(scale.name))
        made = self.plan(scale)
        for run in made.runs:
            run.refuse_one_column_of_two()
        runs = (
            made.runs
            if scale.compute == Compute()
            else tuple(r.carried_out_by(scale.compute) for r in made.runs)
        )
        return replace(made, runs=runs, registered=self.registered, pilot_seeds=scale.pilot_seeds)


PAGES = ("index", "paper-and-here")
"""Of a site, besides those of experiments."""


def read_design(path: Path) -> Design:
    """The design in a user's Python file, which is imported under its own name, as its workers do.

    Raises BadInput if it fails, now or when it plans, or if it does not export a `Design`.
    """
    path = path.resolve()
    if not path.stem.isidentifier() or _file_of(path.stem) not in (None, str(path)):
        raise BadInput(f"{path} cannot be imported as {path.stem!r}: give the file a name of its own")
    sys.path.insert(0, str(path.parent))  # workers are given the path too
    with _failures_named(path):
        module = import_module(path.stem)
    found = getattr(module, EXPORTED, None)
    if not isinstance(found, Design):
        raise BadInput(
            f"{path} does not define {EXPORTED} = Design(...); docs/run-an-experiment.md shows how"
        )

    def plan(scale: Scale) -> Experiment:
        with _failures_named(path):
            planned = _planned(found, scale)
        if not isinstance(planned, Experiment):
            raise BadInput(
                f"{path} plans {planned!r} where an Experiment should be: let its function return one"
            )
        return planned

    return replace(found, plan=plan)


def _planned(design: Design, scale: Scale) -> object:
    """What its function returns. Raises BadInput where that has looked up the scale's name in vain."""
    try:
        return design.plan(scale)
    except KeyError as error:
        if error.args != (scale.name,):
            raise
        lacks = BadInput(f"it sets nothing for the scale {scale.name}; add that, or choose another --scale")
        raise lacks.with_traceback(error.__traceback__) from error


def _file_of(module: str) -> str | None:
    """The file of the module of that name, empty for one without; None if there is no such module."""
    known = sys.modules.get(module)
    if known is not None:
        return known.__file__ or ""
    spec = find_spec(module)
    return None if spec is None else spec.origin or ""


@contextmanager
def _failures_named(path: Path) -> Iterator[None]:
    """Turn an error of the file's code into BadInput with its line."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{path}{_line_of(error, path)}: {error}") from error
    except Exception as error:
        where, why = f"{path}{_line_of(error, path)}", error.msg if isinstance(error, SyntaxError) else error
        raise BadInput(f"{where} failed: {type(error).__name__}: {why}; mend it and try again") from error


def _line_of(error: BaseException, path: Path) -> str:
    """Where in the file an error arose, e.g. ", line 3"; empty if it is not known."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f", line {error.lineno}"
    trace, found = error.__traceback__, ""
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename) == path:
            found = f", line {trace.tb_lineno}"
        trace = trace.tb_next
    return found


@cache
def builtin_designs() -> dict[str, Design]:
    """The designs of all files, by name: the paper's figures and tables first, then the others."""
    return {
        name: getattr(import_module(f"{SUITE}.{name.replace('-', '_')}"), EXPORTED)
        for name in experiment_names()
    }


def every_experiment(scale: Scale) -> tuple[Experiment, ...]:
    """All built-in experiments at a scale, in the order in which the pages show them."""
    return tuple(design.at(scale) for design in builtin_designs().values())


def requested_designs(names: Sequence[str]) -> dict[str, Design]:
    """The designs of these experiments, groups and files, by name, the built-in ones in their order.

    Raises BadInput for a name that is none of these.
    """
    refuse_unknown(names)
    known = builtin_designs()
    chosen = {
        name: design
        for name, design in known.items()
        if name in names or "all" in names or ("paper" in names and design.of_the_paper)
    }
    for path in names:
        if path.endswith(".py"):
            design = read_design(Path(path))
            if (name := name_of(path)) in known:
                raise BadInput(f"{path} would be called {name}, as a built-in experiment is; rename the file")
            if name in PAGES:
                raise BadInput(f"{path} would have the page {name}.html, which a site has; rename the file")
            chosen[name] = design
    return chosen


def name_of(requested: str) -> str:
    """What the experiment of a request is called: a file's is called as the file is."""
    return Path(requested).stem.replace("_", "-") if requested.endswith(".py") else requested


@dataclass(frozen=True)
class Changes:
    """What is other than the scale has it; see the options of `isoloss reproduce`. None changes nothing."""

    language: Path | None = None
    maximum_length: int | None = None
    task: str | None = None
    any_task: bool = False
    tokens: int | None = None
    compute: Compute | None = None


def requested_experiments(
    designs: Mapping[str, Design], scale: Scale, changes: Changes, folder: Path
) -> tuple[Experiment, ...]:
    """The experiments at a scale, with the changes; `folder` keeps what the scale's language takes to make.

    Raises BadInput for changes that an experiment does not take, and for a claim or a panel that names what
    is not planned, also at the scale whose claims are not judged.
    """
    if changes.language is not None or changes.task is not None:
        if not all(design.takes_a_language for design in designs.values()):
            raise language_refused()
        plan = scale.grammar.language
        if changes.language is not None:
            plan = ReadyLanguage(read_language(changes.language, changes.maximum_length))
        language = plan.language(folder, silent)
        room = any(design.needs_room for design in designs.values()) and not changes.any_task
        scale = with_language(scale, plan, language, changes.task, needs_room=room)
    planned = [_with_changes(scale, changes, *each) for each in designs.items()]
    if scale.language_given and any(map(_draws_a_task, planned)):
        task = named_task(scale.grammar.language.language(folder, silent), scale.grammar.tasks[0])
        refuse_too_few_sentences(task, scale.sizes)
    for experiment in planned:
        refuse_misspelt_names(experiment)
    return tuple(_as_judged(experiment, scale) for experiment in planned)


def _draws_a_task(experiment: Experiment) -> bool:
    return any(
        isinstance(each.quantity, AccuracyQuantity) for run in experiment.runs for each in run.measured
    )


def other_experiments(
    scale: Scale, changes: Changes, chosen: Sequence[str] = ()
) -> dict[str, Callable[[], Experiment]]:
    """Functions that create all experiments but `chosen`, by name: a folder's site shows finished ones."""

    def planned(name: str, design: Design) -> Experiment:
        return _as_judged(_with_changes(scale, changes, name, design), scale)

    return {
        name: partial(planned, name, design)
        for name, design in builtin_designs().items()
        if name not in chosen
    }


def _as_judged(experiment: Experiment, scale: Scale) -> Experiment:
    """Without claims at the scale that shows nothing about them."""
    return replace(experiment, claims=()) if scale.name == UNJUDGED else experiment


def _with_changes(scale: Scale, changes: Changes, name: str, design: Design) -> Experiment:
    """One experiment, carried out as requested and called as its file is."""
    experiment = design.at(scale)
    if changes.tokens is not None:
        experiment = with_tokens(experiment, changes.tokens)
    if (compute := changes.compute) is not None:
        runs = tuple(run.carried_out_by(compute) for run in experiment.runs)
        experiment = replace(experiment, runs=runs)
    return replace(experiment, name=name)
