"""The experiments that take a language and a task of the user's, and how each is made of them."""

from collections.abc import Callable
from dataclasses import replace

from isoloss.command_line.language_argument import read_language
from isoloss.command_line.options.reproduce import ReproduceOptions
from isoloss.errors import BadInput
from isoloss.experiments.drift.experiment import (
    adamw_clock,
    drift,
    drift_limits,
    figure_1_and_drift,
    flatness_interventions,
)
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures.lazy_to_rich import lazy_to_rich
from isoloss.experiments.figures.other_distributions import other_distributions
from isoloss.experiments.figures.roots_or_trace import roots_or_trace
from isoloss.experiments.grammar_runs import headline_task, task_name
from isoloss.experiments.planned_run import ReadyLanguage
from isoloss.experiments.scales.scale import UNJUDGED, Scale
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG
from isoloss.measurements.entropy import masked_entropy
from isoloss.progress import silent

HEADLINE = "figure-1"
"""The experiment whose task must have room."""
OF_SHIFTED_GRAMMARS = "other-distributions"
ENTROPY_SENTENCES = 4000

OF_YOUR_OWN: dict[str, Callable[[Scale, str], Experiment]] = {
    HEADLINE: figure_1_and_drift,
    "drift": drift,
    "drift-limits": lambda scale, _task: drift_limits(scale),
    "adamw-clock": lambda scale, _task: adamw_clock(scale),
    "flatness-interventions": flatness_interventions,
    "lazy-to-rich": lambda scale, _task: lazy_to_rich(scale),
    OF_SHIFTED_GRAMMARS: lambda scale, _task: other_distributions(scale),
    "roots-or-trace": lambda scale, _task: roots_or_trace(scale),
}
"""By name. Of those that do not take a task by itself the scale's tasks are the one."""


def on_your_own(request: ReproduceOptions, scale: Scale) -> tuple[Experiment, ...]:
    """The experiments named, on the language and for the task of the request; the scale's where it has none.

    Raises BadInput for an experiment that takes neither, a language that is none or not a grammar where one
    is needed, and a task that is not there or, for the headline, has no room.
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
    own = replace(scale, grammar=replace(scale.grammar, language=plan, tasks=tasks))
    return tuple(make(own, task) for name, make in OF_YOUR_OWN.items() if name in request.names)


def _sharpened_on(language: Language, own: Language, scale: Scale) -> Scale:
    """The scale, what is sharpened kept to losses as far above the language's entropy, by shares of it."""
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
