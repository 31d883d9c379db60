"""The pre-training runs on the grammar that several figures share: every size with every seed."""

from isoloss.errors import BadInput
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.quantity import MeasuredAt
from isoloss.experiments.scale import Scale
from isoloss.languages.language import Language


def grammar_runs(scale: Scale, measured: tuple[MeasuredAt, ...]) -> tuple[PlannedRun, ...]:
    """A run for each size and seed, smallest models first."""
    runs = scale.grammar
    return tuple(
        PlannedRun(
            name=f"width-{architecture.shape.width}-seed-{seed}",
            language=runs.language,
            architecture=architecture,
            update_rule=runs.update_rule,
            steps=runs.steps,
            batch_size=runs.batch_size,
            seed=seed,
            checkpoint_steps=runs.checkpoint_steps,
            saturated_from=runs.saturated_from,
            measured=measured,
            labels=(("width", architecture.shape.width),),
        )
        for architecture in runs.architectures
        for seed in scale.seeds
    )


def task_name(language: Language, name: str | None) -> str:
    """The task of that name; by default the prefix of half the longest sentence (the paper's Task B).

    Without such a prefix, the language's last task, which has the shortest prefix. Raises BadInput for a
    language without tasks, or without one of that name.
    """
    names = [task.name for task in language.tasks()]
    if not names:
        raise BadInput(
            "the language has no task: every symbol at the start of its sentences is certain; "
            "give a grammar whose start symbol, or whose first parts, can be several symbols"
        )
    if name is None:
        half = f"prefix-{language.maximum_length // 2}"
        return half if half in names else names[-1]
    if name not in names:
        raise BadInput(f"the language has no task {name!r}; choose {', '.join(names)}")
    return name
