"""The pre-training runs on the grammar that several figures share: every size with every seed."""

from isoloss.errors import BadInput
from isoloss.experiments.language_runs import runs_of_sizes
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.quantities.probe import named_task
from isoloss.experiments.quantity import MeasuredAt
from isoloss.experiments.scale import Scale
from isoloss.languages.language import Language


def grammar_runs(scale: Scale, measured: tuple[MeasuredAt, ...]) -> tuple[PlannedRun, ...]:
    """A run for each size and seed, smallest models first."""
    return runs_of_sizes(scale.grammar, scale.seeds, measured)


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
    return named_task(language, name).name
