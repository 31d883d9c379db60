"""A task of a scale that a user names, or that stands by default."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from isoloss.errors import BadInput
from isoloss.experiments import scale as scale_module
from isoloss.experiments.languages import headline_grammar
from isoloss.experiments.scale import MeasurementSizes, headline_task, scale_named
from isoloss.languages.language import Language
from isoloss.languages.notation import parse_grammar
from isoloss.languages.pcfg import pcfg
from isoloss.languages.random_grammar import laptop_grammar
from isoloss.languages.task import Task
from isoloss.measurements.room_and_price import Room, RoomSettings, measure_room
from thorough_cases import others_thorough

LAPTOP = scale_named("laptop").sizes
SIZES = replace(LAPTOP, probe_train=1000)
"""Of fewer sentences than the laptop's, by which the tasks of its grammar differ as clearly."""


@pytest.fixture(autouse=True, scope="module")
def _measured_once() -> Iterator[None]:
    """A room takes half a second, and the same ones are asked for by several tests."""
    known: dict[tuple[str, str, RoomSettings], Room] = {}

    def measured(language: Language, task: Task, settings: RoomSettings) -> Room:
        asked = language.digest, task.name, settings
        if asked not in known:
            known[asked] = measure_room(language, task, settings)
        return known[asked]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scale_module, "measure_room", measured)
        yield


@pytest.mark.parametrize("sizes", others_thorough([SIZES, LAPTOP]))
def test_a_task_with_room_is_taken_and_is_what_stands_by_default(sizes: MeasurementSizes) -> None:
    language = headline_grammar()
    assert headline_task(language, "prefix-8", sizes) == "prefix-8"
    asked = RoomSettings(train=min(sizes.probe_train, scale_module.MOST_EXAMPLES))
    rooms = {
        task.name: scale_module.measure_room(language, task, asked).room.value for task in language.tasks()
    }
    assert headline_task(language, None, sizes) == max(rooms, key=lambda name: rooms[name]) == "prefix-8"


def test_a_task_without_room_is_refused_with_one_that_has_it() -> None:
    with pytest.raises(BadInput) as refused:
        headline_task(headline_grammar(), "prefix-2", SIZES)
    said = str(refused.value)
    assert said.startswith("prefix-2 has no room: a linear probe on the words alone is right on ")
    assert said.endswith("; choose prefix-8, or give --any-task to show it all the same")


def test_a_task_that_is_guessed_is_refused() -> None:
    """prefix-4 has room and a label that is correct on more than half of the sentences."""
    with pytest.raises(BadInput, match="prefix-4 is easily guessed: always giving its most common label"):
        headline_task(headline_grammar(), "prefix-4", SIZES)


@pytest.mark.parametrize("name", [None, "prefix-8"])
def test_a_language_none_of_whose_tasks_has_room_is_refused(name: str | None) -> None:
    with pytest.raises(
        BadInput, match=r"(no task of the language has room|choose another language).*--any-task"
    ):
        headline_task(pcfg(laptop_grammar(5)), name, scale_named("smoke").sizes)


def test_what_no_task_is_there_for_is_refused_as_ever() -> None:
    with pytest.raises(BadInput, match="prefix-3"):
        headline_task(headline_grammar(), "prefix-3", SIZES)
    with pytest.raises(BadInput, match="the language has no task"):
        headline_task(pcfg(parse_grammar("S -> 'a' [0.5] | 'b' [0.5]")), None, SIZES)
