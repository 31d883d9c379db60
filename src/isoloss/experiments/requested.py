"""The experiments that a user asks for: which, and what is other than their scale has it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from isoloss.errors import BadInput, did_you_mean
from isoloss.experiments.design import Design, read_design
from isoloss.experiments.experiment import Experiment, with_tokens
from isoloss.experiments.planned_run import ReadyLanguage
from isoloss.experiments.scale import Scale, with_language
from isoloss.experiments.shared.language_runs import UNJUDGED
from isoloss.experiments.suite import builtin_designs
from isoloss.languages.language_file import read_language
from isoloss.pretraining.specification import Compute
from isoloss.progress import silent

GROUPS = ("paper", "all")
"""Groups of experiments requested by one name: those of the paper, and all that are built in."""


def requested_designs(names: Sequence[str]) -> dict[str, Design]:
    """The designs of these experiments, groups and files, by name, the built-in ones in their order.

    Raises BadInput for a name that is none of these.
    """
    known = builtin_designs()
    choices = f"choose {' or '.join(GROUPS)}, among {', '.join(known)}, or name a Python file of your own"
    if not names:
        raise BadInput(f"name what to reproduce: {choices}")
    for name in names:
        if name not in GROUPS and name not in known and not name.endswith(".py"):
            near = did_you_mean(name, (*GROUPS, *known)) or f"; {choices}"
            raise BadInput(f"there is no experiment {name!r}{near}")
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
    rates: str | None = None
    tokens: int | None = None
    compute: Compute | None = None


def requested_experiments(
    designs: Mapping[str, Design], scale: Scale, changes: Changes, folder: Path
) -> tuple[Experiment, ...]:
    """The experiments at a scale, with the changes; `folder` keeps what the scale's language takes to make.

    Raises BadInput for changes that an experiment does not take.
    """
    if changes.maximum_length is not None and changes.language is None:
        raise BadInput("--maximum-length needs --language; the scale's own language has a fixed length")
    if changes.rates is not None and not any(design.with_rates for design in designs.values()):
        named = [name for name, design in builtin_designs().items() if design.with_rates]
        raise BadInput(
            f"--settings are the learning rates and batches of {' and '.join(named)}; name that experiment"
        )
    if changes.language is not None or changes.task is not None:
        _refuse_without_language(designs)
        plan = scale.grammar.language
        if changes.language is not None:
            plan = ReadyLanguage(read_language(changes.language, changes.maximum_length))
        language = plan.language(folder, silent)
        room = any(design.needs_room for design in designs.values()) and not changes.any_task
        scale = with_language(scale, plan, language, changes.task, needs_room=room)
    return tuple(_with_changes(scale, changes, *each) for each in designs.items())


def _refuse_without_language(designs: Mapping[str, Design]) -> None:
    if not all(design.takes_a_language for design in designs.values()):
        *first, last = (name for name, design in builtin_designs().items() if design.takes_a_language)
        raise BadInput(f"--language and --task go with {', '.join(first)} and {last}; name no others")


def other_experiments(
    scale: Scale, changes: Changes, chosen: Sequence[str] = ()
) -> dict[str, Callable[[], Experiment]]:
    """Functions that create all experiments but `chosen`, by name: a folder's site shows finished ones."""
    return {
        name: partial(_with_changes, scale, changes, name, design)
        for name, design in builtin_designs().items()
        if name not in chosen
    }


def _with_changes(scale: Scale, changes: Changes, name: str, design: Design) -> Experiment:
    """One experiment, carried out as requested and called as its file is."""
    experiment = design.at(scale, changes.rates)
    if changes.tokens is not None:
        experiment = with_tokens(experiment, changes.tokens)
    if (compute := changes.compute) is not None:
        runs = tuple(run.carried_out_by(compute) for run in experiment.runs)
        experiment = replace(experiment, runs=runs)
    claims = () if scale.name == UNJUDGED else experiment.claims
    return replace(experiment, name=name, claims=claims)
