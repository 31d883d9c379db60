"""Which task Figure 1 may show: one that neither the words alone nor a guess settle."""

from isoloss.errors import BadInput
from isoloss.experiments.grammar_runs import task_name
from isoloss.experiments.quantities.probe import named_task
from isoloss.experiments.scale import MeasurementSizes
from isoloss.languages.language import Language
from isoloss.measurements.room_and_price import Room, RoomSettings, measure_room
from isoloss.progress import Progress, silent

MOST_EXAMPLES = 3000
"""A probe on words learns from as many sentences as the models' probes do, but for a check from no more."""


def headline_task(
    language: Language, name: str | None, sizes: MeasurementSizes, progress: Progress = silent
) -> str:
    """The task of that name if it has room; by default the one that has the most.

    Raises BadInput for a task without room, or one that is easily guessed (`Room.refusal`), for a language
    that has no other, and for what `task_name` refuses.
    """
    settings = RoomSettings(train=min(sizes.probe_train, MOST_EXAMPLES))
    _ = task_name(language, name)  # refuses a language without tasks, and unknown names
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
