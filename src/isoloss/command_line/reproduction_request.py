"""What `isoloss reproduce` is asked for: which experiments, at which scale, on which language."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from isoloss.command_line.language_argument import read_language
from isoloss.command_line.options.reproduce import ReproduceOptions
from isoloss.errors import BadInput, did_you_mean
from isoloss.executors.runner import Outcome
from isoloss.experiments.carry_out import is_complete
from isoloss.experiments.drift.clock import paces
from isoloss.experiments.experiment import Experiment, only_named
from isoloss.experiments.experiment_result import Executor, ExperimentResult, gathered, was_planned
from isoloss.experiments.grammar_runs import headline_task, task_name
from isoloss.experiments.kept_portraits import kept_portrait, planned_languages, portrait_jobs
from isoloss.experiments.planned_run import PlannedRun, ReadyLanguage
from isoloss.experiments.scales.scale import UNJUDGED, Scale
from isoloss.experiments.suite import EXPERIMENTS, OF_THE_PAPER, scale_named
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG
from isoloss.measurements.entropy import masked_entropy
from isoloss.measurements.quantities.probe import ProbeQuantity
from isoloss.pretraining.specification import Compute
from isoloss.progress import Progress, part_of, silent
from isoloss.report.site import Site, write_site
from isoloss.theory.statement_file import kept_statements

SITE, THEORY = "site", "theory"
"""The subfolders of a folder of results."""

GROUPS = {"paper": OF_THE_PAPER, "all": tuple(EXPERIMENTS)}
"""Groups of experiments requested by one name."""
PACED = "drift"
"""The experiment whose learning rates and batches can be given as options."""


def command_again(request: ReproduceOptions, experiment: Experiment, run: PlannedRun) -> str:
    """The command that recomputes one run, in a folder of its own."""
    own = request.language is not None or (request.task is not None and experiment.name in request.names)
    words = ["isoloss", "reproduce", experiment.name, "--scale", request.scale]
    words += ["--runs", run.name, "--output", "one-run"]
    options = {
        "--language": request.language,
        "--maximum-length": request.maximum_length,
        "--task": _probed_task(run) if own else None,
        "--settings": request.settings if experiment.name == PACED else None,
        "--device": None if request.device == "cpu" else request.device,
        "--tokens": request.tokens,
        "--precision": None if request.precision == "float32" else request.precision,
    }
    for name, value in options.items():
        words += [name, str(value)] if value is not None else []
    words += ["--compiled"] if request.compiled else []
    words += ["--any-task"] if request.any_task and own and experiment.name == HEADLINE else []
    return shlex.join(words)


def _probed_task(run: PlannedRun) -> str | None:
    """The downstream task of the run's probe, which for a language depends on the rest of the request."""
    quantities = (measured.quantity for measured in run.measured)
    return next((quantity.task for quantity in quantities if isinstance(quantity, ProbeQuantity)), None)


@dataclass(frozen=True)
class Choice:
    """The requested experiments, their selected runs, and functions that create the others for the site."""

    experiments: tuple[Experiment, ...]
    runs: tuple[PlannedRun, ...]
    others: Mapping[str, Callable[[], Experiment]]


def choice(request: ReproduceOptions) -> Choice:
    """The meaning of the request. Raises BadInput for what is impossible, listing the known names."""
    scale = scale_named(request.scale)
    if request.tokens is not None:
        scale = scale.with_tokens(request.tokens)
    _refuse_unknown(request.names, tuple(EXPERIMENTS))
    named = {one for name in request.names for one in GROUPS.get(name, (name,))}
    chosen = [name for name in EXPERIMENTS if name in named]
    if request.measure and not (request.dry_run and request.on == "local"):
        raise BadInput("--measure goes with --dry-run and --on local: it times the models here, then stops")
    if request.maximum_length is not None and request.language is None:
        raise BadInput("--maximum-length needs --language; the scale's own language has a fixed length")
    if request.settings is not None and PACED not in chosen:
        raise BadInput(f"--settings are the learning rates and batches of {PACED}; name that experiment")
    of_your_own = request.language is not None or request.task is not None
    own = on_your_own(request, scale) if of_your_own else scale
    experiments = tuple(_as_asked(request, own, name) for name in chosen)
    if request.runs and len(experiments) != 1:
        raise BadInput("--runs names runs of one experiment; name that experiment alone")
    runs = [run for experiment in experiments for run in only_named(experiment, request.runs)]
    others = {} if request.language else other_experiments(request, scale, chosen)
    return Choice(experiments, tuple(runs), others)


def other_experiments(
    request: ReproduceOptions, scale: Scale, chosen: Sequence[str] = ()
) -> dict[str, Callable[[], Experiment]]:
    """Functions that create all experiments but `chosen`, by name: a folder's site shows finished ones."""
    return {name: partial(_as_asked, request, scale, name) for name in EXPERIMENTS if name not in chosen}


def _as_asked(request: ReproduceOptions, scale: Scale, name: str) -> Experiment:
    """One experiment, carried out as requested."""
    if request.settings is not None and name == PACED:
        scale = replace(scale, drift=replace(scale.drift, paces=paces(request.settings)))
    experiment = EXPERIMENTS[name](scale)
    compute = Compute(request.precision, request.compiled)
    runs = tuple(run.carried_out_by(compute) for run in experiment.runs)
    claims = () if scale.name == UNJUDGED else experiment.claims
    return replace(experiment, runs=runs, claims=claims)


def _refuse_unknown(names: Sequence[str], known: Sequence[str]) -> None:
    choices = f"choose {' or '.join(GROUPS)}, or among {', '.join(known)}"
    if not names:
        raise BadInput(f"name what to reproduce: {choices}")
    for name in names:
        if name not in GROUPS and name not in known:
            near = did_you_mean(name, (*GROUPS, *known)) or f"; {choices}"
            raise BadInput(f"there is no experiment {name!r}{near}")


def write_whole_site(
    request: ReproduceOptions,
    results: Sequence[ExperimentResult],
    others: Mapping[str, Callable[[], Experiment]],
    execute: Executor,
    progress: Progress,
) -> tuple[Path, Outcome]:
    """Write the site of `results`, of the `others` that are complete in the folder, and of statements.

    Returns its first page, and any messages from drawing the languages.
    """
    planned = [make() for name, make in others.items() if was_planned(name, request.folder)]
    before: list[ExperimentResult] = []
    for done, experiment in enumerate(planned):
        if is_done(experiment, request.folder):
            before += gathered([experiment], request.folder, progress=part_of(progress, done, len(planned)))
        progress("judging", done + 1, len(planned), f"{experiment.name}, computed before")
    by_name = {result.experiment.name: result for result in (*results, *before)}
    shown = tuple(by_name[name] for name in EXPERIMENTS if name in by_name)
    plans = planned_languages(result.experiment for result in shown)
    outcome = execute(portrait_jobs(plans, request.folder), progress)
    portraits = {plan.digest: kept_portrait(plan, request.folder) for plan in plans}
    site = Site(
        scale=request.scale,
        output=request.folder,
        results=shown,
        portraits={digest: portrait for digest, portrait in portraits.items() if portrait},
        again=partial(command_again, request),
        statements=kept_statements(request.folder / THEORY, smoke=request.scale == "smoke"),
        notices=tuple(f"{failure.job} failed: {failure.text}" for failure in outcome.failures),
    )
    return write_site(site, request.folder / SITE, progress), outcome


def is_done(experiment: Experiment, output: Path) -> bool:
    """Whether all of the experiment's runs and references are complete in `output`."""
    return all(is_complete(run, output) for run in experiment.runs) and all(
        reference.records(output) for reference in experiment.references
    )


HEADLINE = "figure-1"
"""The experiment whose task must have room."""
OF_SHIFTED_GRAMMARS = "other-distributions"
ENTROPY_SENTENCES = 4000

OF_YOUR_OWN = (
    HEADLINE,
    "drift",
    "drift-limits",
    "adamw-clock",
    "flatness-interventions",
    "lazy-to-rich",
    OF_SHIFTED_GRAMMARS,
    "roots-or-trace",
)
"""The experiments in which a user's own language or task can be used."""


def on_your_own(request: ReproduceOptions, scale: Scale) -> Scale:
    """The scale with the language and the task of the request, or its own where the request has none.

    Raises BadInput for an experiment that takes neither, a language that is not one or not a grammar if one
    is needed, and a task that does not exist or, for the headline, has no room.
    """
    if not set(request.names) <= set(OF_YOUR_OWN):
        *first, last = OF_YOUR_OWN
        raise BadInput(f"--language and --task go with {', '.join(first)} and {last}; name no others")
    plan = scale.grammar.language
    if request.language is not None:
        plan = ReadyLanguage(read_language(request.language, request.maximum_length))
    language = plan.language(request.folder, silent)
    if OF_SHIFTED_GRAMMARS in request.names and not isinstance(language, PCFG):
        raise BadInput(
            f"{OF_SHIFTED_GRAMMARS} changes the probabilities of a grammar's rules, and {request.language} "
            "is no grammar; give one, or leave that experiment out"
        )
    # The smoke scale shows nothing about the claims anyway.
    judged = HEADLINE in request.names and scale.name != UNJUDGED and not request.any_task
    task = headline_task(language, request.task, scale.sizes) if judged else task_name(language, request.task)
    if request.language is not None:
        scale = replace(scale, drift=replace(scale.drift, other_languages=()))
        if "flatness-interventions" in request.names:
            scale = _sharpened_on(language, scale.grammar.language.language(request.folder, silent), scale)
    tasks = (task,) * len(scale.grammar.tasks)
    return replace(scale, grammar=replace(scale.grammar, language=plan, tasks=tasks))


def _sharpened_on(language: Language, own: Language, scale: Scale) -> Scale:
    """The scale with the sharpening's loss window rescaled by the ratio of the two languages' entropies."""
    before, now = (masked_entropy(each, ENTROPY_SENTENCES, seed=0).value for each in (own, language))
    low, high = scale.interventions.sharpened.loss_window
    window = (round(low * now / before, 4), round(high * now / before, 4))
    if not window[0] < window[1]:
        raise BadInput(
            f"a word of the language is settled by the others (entropy {now:.4g} nats), which leaves "
            "nothing to sharpen a model by; give another language, or leave flatness-interventions out"
        )
    sharpened = replace(scale.interventions.sharpened, loss_window=window)
    return replace(scale, interventions=replace(scale.interventions, sharpened=sharpened))
