"""A user's own language or task in place of the scale's grammar and its tasks."""

from collections.abc import Mapping
from dataclasses import replace

from isoloss.errors import BadInput
from isoloss.experiments.design import Design
from isoloss.experiments.planned_run import LanguagePlan
from isoloss.experiments.scale import MeasurementSizes, Scale
from isoloss.experiments.shared.language_runs import UNJUDGED
from isoloss.experiments.suite import builtin_designs
from isoloss.languages.language import Language
from isoloss.measurements.room_and_price import Room, RoomSettings, measure_room
from isoloss.measurements.task_sentences import named_task
from isoloss.progress import Progress, silent

MOST_EXAMPLES = 3000
"""A probe on words learns from as many sentences as the models' probes do, but for a check from no more."""


def with_language(
    scale: Scale,
    designs: Mapping[str, Design],
    plan: LanguagePlan,
    language: Language,
    task: str | None,
    *,
    any_task: bool,
) -> Scale:
    """The scale on the language of `plan`, with the task of that name, for these experiments.

    Raises BadInput for an experiment that takes neither, and for a task that does not exist or, where an
    experiment needs one with room, has none.
    """
    if not all(design.takes_a_language for design in designs.values()):
        *first, last = (name for name, design in builtin_designs().items() if design.takes_a_language)
        raise BadInput(f"--language and --task go with {', '.join(first)} and {last}; name no others")
    # The smoke scale shows nothing about the claims anyway.
    judged = any(design.needs_room for design in designs.values()) and scale.name != UNJUDGED
    if judged and not any_task:
        found = headline_task(language, task, scale.sizes)
    else:
        found = task_name(language, task)
    grammar = replace(scale.grammar, language=plan, tasks=(found,) * len(scale.grammar.tasks))
    return replace(scale, grammar=grammar, language_given=plan.digest != scale.grammar.language.digest)


def task_name(language: Language, name: str | None) -> str:
    """The task of that name; by default the prefix of half the longest sentence (the paper's Task B).

    For an HMM, the state in the middle; failing both, the language's last task, which for a grammar is the
    shortest prefix. Raises BadInput for a language without tasks, or without one of that name.
    """
    names = [task.name for task in language.tasks()]
    if not names:
        raise BadInput(
            "the language has no task: every symbol at the start of its sentences is certain; "
            "give a grammar whose start symbol, or whose first parts, can be several symbols, or another "
            "language with tasks"
        )
    if name is None:
        half = language.maximum_length // 2
        return next((name for name in (f"prefix-{half}", f"state-{half}") if name in names), names[-1])
    return named_task(language, name).name


def headline_task(
    language: Language, name: str | None, sizes: MeasurementSizes, progress: Progress = silent
) -> str:
    """The task of that name if it has room; by default the one that has the most.

    Raises BadInput for a task without room, or one that is easily guessed (`Room.refusal`), for a language
    that has no other, and for what `task_name` refuses.
    """
    settings = RoomSettings(train=min(sizes.probe_train, MOST_EXAMPLES))
    _ = task_name(language, name)  # rejects a language without tasks, and unknown names
    if name is not None:
        room = measure_room(language, named_task(language, name), settings, progress)
        if room.refusal is None:
            return name
    fit = _fit_tasks(language, settings, progress)
    if name is not None:
        choices = f"choose {' or '.join(room.task for room in fit)}" if fit else "choose another language"
        raise BadInput(f"{room.refusal}; {choices}, or give --any-task to show it all the same")
    if not fit:
        raise BadInput(
            "no task of the language has room and is hard to guess, so that a probe's accuracy would say "
            "nothing of the models; give one that `isoloss language grammar-search` finds, or --any-task"
        )
    return max(fit, key=lambda room: room.room.value).task


def _fit_tasks(language: Language, settings: RoomSettings, progress: Progress) -> list[Room]:
    rooms = [measure_room(language, task, settings, progress) for task in language.tasks()]
    return [room for room in rooms if room.refusal is None]
