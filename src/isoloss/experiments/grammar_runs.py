"""The pre-training runs on the grammar that several figures share: every size with every seed."""

from collections.abc import Sequence
from dataclasses import replace

from isoloss.errors import BadInput
from isoloss.experiments.language_runs import runs_of_sizes
from isoloss.experiments.measured_at import MeasuredAt
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.scales.scale import MeasurementSizes, Rules, Scale
from isoloss.languages.language import Language
from isoloss.measurements.quantities.probe import named_task
from isoloss.measurements.quantity import AnyQuantity
from isoloss.measurements.room_and_price import Room, RoomSettings, measure_room
from isoloss.progress import Progress, silent

MOST_EXAMPLES = 3000
"""A probe on words learns from as many sentences as the models' probes do, but for a check from no more."""

ADAMW = "AdamW"
"""The rule that the others are held against."""

SMALL = "AdamW, small model"
"""The same rule's runs of a smaller model."""


def grammar_runs(scale: Scale, measured: tuple[MeasuredAt, ...]) -> tuple[PlannedRun, ...]:
    """One run for each size and seed, smallest models first."""
    return runs_of_sizes(scale.grammar, scale.seeds, measured)


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


def adamw_runs(scale: Scale, quantities: Sequence[AnyQuantity]) -> tuple[PlannedRun, ...]:
    """The grammar's runs of the compared size, measured at every checkpoint.

    Claims use all checkpoints, because the loss at which runs are compared is found among them.
    """
    steps = scale.grammar.checkpoint_steps
    architecture = scale.grammar.architectures[scale.compared.size]
    return tuple(
        replace(run, name=f"{ADAMW}-seed-{run.seed}", labels=(("rule", ADAMW),), saturated_from=steps[0])
        for run in grammar_runs(scale, tuple(MeasuredAt(quantity, steps) for quantity in quantities))
        if run.architecture == architecture
    )


def small_runs(scale: Scale, quantities: Sequence[AnyQuantity]) -> tuple[PlannedRun, ...]:
    """The small model to compare with the adversary's, trained like the grammar's and measured at its end."""
    small = replace(scale.grammar, architectures=(scale.compared.small,))
    measured = tuple(MeasuredAt(quantity, (small.steps,)) for quantity in quantities)
    return tuple(
        replace(run, name=f"small-seed-{run.seed}", labels=(("rule", SMALL),))
        for run in runs_of_sizes(small, scale.seeds, measured)
    )


def rule_runs(
    scale: Scale, rules: Rules, quantities: Sequence[AnyQuantity], since: int = 0
) -> tuple[PlannedRun, ...]:
    """Each rule with each seed at that size, measured at the checkpoints from step `since` on."""
    grammar, compared = scale.grammar, scale.compared
    steps = tuple(step for step in compared.checkpoint_steps if step >= since)
    return tuple(
        PlannedRun(
            name=f"{name}-seed-{seed}",
            language=grammar.language,
            architecture=grammar.architectures[compared.size],
            update_rule=rule,
            steps=compared.steps,
            batch_size=grammar.batch_size,
            seed=seed,
            checkpoint_steps=compared.checkpoint_steps,
            saturated_from=steps[0],
            measured=tuple(MeasuredAt(quantity, steps) for quantity in quantities),
            labels=(("rule", name),),
            averaging_horizon=grammar.averaging_horizon,
        )
        for name, rule in rules
        for seed in scale.seeds
    )


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
        choices = f"choose {' or '.join(own.task for own in fit)}" if fit else "choose another language"
        raise BadInput(f"{room.refusal}; {choices}, or give --any-task to show it all the same")
    if not fit:
        raise BadInput(
            "no task of the language has room and is hard to guess, so that a probe's accuracy would say "
            "nothing of the models; give one that `isoloss language grammar-search` finds, or --any-task"
        )
    return max(fit, key=lambda own: own.room.value).task


def _fit_tasks(language: Language, settings: RoomSettings, progress: Progress) -> list[Room]:
    rooms = [measure_room(language, task, settings, progress) for task in language.tasks()]
    return [room for room in rooms if room.refusal is None]
