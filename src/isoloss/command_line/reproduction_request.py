"""What `isoloss reproduce` is asked for: which experiments, at which scale, on which language."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from isoloss.command_line.reproduce import ReproduceOptions
from isoloss.errors import BadInput, did_you_mean
from isoloss.experiments.design import Design, read_design
from isoloss.experiments.experiment import Experiment, only_named, with_tokens
from isoloss.experiments.planned_run import PlannedRun, ReadyLanguage
from isoloss.experiments.scale import Scale, scale_named, with_language
from isoloss.experiments.shared.language_runs import UNJUDGED
from isoloss.experiments.suite import builtin_designs
from isoloss.languages.language_file import read_language
from isoloss.measurements.task_sentences import TaskSentences
from isoloss.pretraining.specification import Compute
from isoloss.progress import silent

GROUPS = ("paper", "all")
"""Groups of experiments requested by one name: those of the paper, and all that are built in."""


def command_again(request: ReproduceOptions, experiment: Experiment, run: PlannedRun) -> str:
    """The command that recomputes one run, in a folder of its own."""
    named = {_name_of(requested): requested for requested in request.names}
    asked = named.get(experiment.name, experiment.name)
    design = requested_designs([asked])[experiment.name]
    given = request.language is not None or (request.task is not None and experiment.name in named)
    words = ["isoloss", "reproduce", asked, "--scale", request.scale]
    words += ["--runs", run.name, "--output", "one-run"]
    options = {
        "--language": request.language,
        "--maximum-length": request.maximum_length,
        "--task": _probed_task(run) if given else None,
        "--settings": request.settings if design.with_rates else None,
        "--device": None if request.device == "cpu" else request.device,
        "--tokens": request.tokens,
        "--precision": None if request.precision == "float32" else request.precision,
    }
    for name, value in options.items():
        words += [name, str(value)] if value is not None else []
    words += ["--compiled"] if request.compiled else []
    words += ["--any-task"] if request.any_task and given and design.needs_room else []
    return shlex.join(words)


def _probed_task(run: PlannedRun) -> str | None:
    """The downstream task of the run's probe, which for a language depends on the rest of the request."""
    quantities = (measured.quantity for measured in run.measured)
    examples = (getattr(quantity, "examples", None) for quantity in quantities)
    return next((each.task for each in examples if isinstance(each, TaskSentences)), None)


@dataclass(frozen=True)
class Choice:
    """The requested experiments, their selected runs, and functions that create the others for the site."""

    experiments: tuple[Experiment, ...]
    runs: tuple[PlannedRun, ...]
    others: Mapping[str, Callable[[], Experiment]]


def choice(request: ReproduceOptions) -> Choice:
    """The meaning of the request. Raises BadInput for what is impossible, listing the known names."""
    scale = scale_named(request.scale)
    designs = requested_designs(request.names)
    if request.measure and not (request.dry_run and request.on == "local"):
        raise BadInput("--measure goes with --dry-run and --on local: it times the models here, then stops")
    if request.maximum_length is not None and request.language is None:
        raise BadInput("--maximum-length needs --language; the scale's own language has a fixed length")
    if request.settings is not None and not any(design.with_rates for design in designs.values()):
        named = [name for name, design in builtin_designs().items() if design.with_rates]
        raise BadInput(
            f"--settings are the learning rates and batches of {' and '.join(named)}; name that experiment"
        )
    of_request = scale
    if request.language is not None or request.task is not None:
        _refuse_without_language(designs)
        plan = scale.grammar.language
        if request.language is not None:
            plan = ReadyLanguage(read_language(request.language, request.maximum_length))
        language = plan.language(request.folder, silent)
        room = any(design.needs_room for design in designs.values()) and not request.any_task
        of_request = with_language(scale, plan, language, request.task, needs_room=room)
    experiments = tuple(_as_asked(request, of_request, *each) for each in designs.items())
    if request.runs and len(experiments) != 1:
        raise BadInput("--runs names runs of one experiment; name that experiment alone")
    runs = [run for experiment in experiments for run in only_named(experiment, request.runs)]
    others = {} if request.language else other_experiments(request, scale, tuple(designs))
    return Choice(experiments, tuple(runs), others)


def _refuse_without_language(designs: Mapping[str, Design]) -> None:
    if not all(design.takes_a_language for design in designs.values()):
        *first, last = (name for name, design in builtin_designs().items() if design.takes_a_language)
        raise BadInput(f"--language and --task go with {', '.join(first)} and {last}; name no others")


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
            if (name := _name_of(path)) in known:
                raise BadInput(f"{path} would be called {name}, as a built-in experiment is; rename the file")
            chosen[name] = design
    return chosen


def _name_of(requested: str) -> str:
    """What the experiment of a request is called: a file's is called as the file is."""
    return Path(requested).stem.replace("_", "-") if requested.endswith(".py") else requested


def other_experiments(
    request: ReproduceOptions, scale: Scale, chosen: Sequence[str] = ()
) -> dict[str, Callable[[], Experiment]]:
    """Functions that create all experiments but `chosen`, by name: a folder's site shows finished ones."""
    return {
        name: partial(_as_asked, request, scale, name, design)
        for name, design in builtin_designs().items()
        if name not in chosen
    }


def _as_asked(request: ReproduceOptions, scale: Scale, name: str, design: Design) -> Experiment:
    """One experiment, carried out as requested and called as its file is."""
    experiment = design.at(scale, request.settings)
    if request.tokens is not None:
        experiment = with_tokens(experiment, request.tokens)
    compute = Compute(request.precision, request.compiled)
    runs = tuple(run.carried_out_by(compute) for run in experiment.runs)
    claims = () if scale.name == UNJUDGED else experiment.claims
    return replace(experiment, name=name, runs=runs, claims=claims)
