"""A search over random languages for those whose task has room at a price worth paying.

No model is trained on any of them, so the choice cannot depend on the results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.languages.task import Task
from isoloss.measurements.entropy import language_entropy
from isoloss.measurements.room_and_price import (
    LEAST_ROOM,
    MOST_CHANCE,
    PRICED_SENTENCES,
    Room,
    RoomSettings,
    measure_room,
    price,
)
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate
from isoloss.results.record import Record

ENTROPY_SENTENCES = 500


@dataclass(frozen=True)
class SearchRule:
    """Which languages are ranked by the room of their task: those within these inclusive bounds.

    Prices are in nats. The default bounds are half the lower and twice the upper end of 0.001 to 0.004 nats,
    the KL at which small models on small languages plateau.
    """

    cheapest: float = 0.0005
    dearest: float = 0.008
    least_room: float = LEAST_ROOM
    most_chance: float = MOST_CHANCE

    def __post_init__(self) -> None:
        if self.cheapest > self.dearest:
            raise BadInput(
                f"no price is at least {self.cheapest:g} and at most {self.dearest:g} nats; swap the bounds"
            )

    def has_price(self, record: Record) -> bool:
        """Whether the price lies within the bounds."""
        return self.cheapest <= record.value <= self.dearest

    def has_room(self, room: Room) -> bool:
        """Whether room and chance lie within the bounds."""
        return room.room.value >= self.least_room and room.chance.value <= self.most_chance


@dataclass(frozen=True)
class Candidate:
    """A language that satisfies the rule, by its seed; `entropy` is that of the masked word, in nats."""

    seed: int
    room: Room
    price: Record
    entropy: Estimate


@dataclass(frozen=True)
class Search:
    """The `ranked` languages, most room first; of `searched` ones, `with_task` have the task, and so on."""

    task: str
    searched: int
    with_task: int
    with_price: int
    ranked: tuple[Candidate, ...]


def search_languages(
    language_of: Callable[[int], Language],
    task: str,
    seeds: Sequence[int],
    rule: SearchRule | None = None,
    settings: RoomSettings | None = None,
    progress: Progress = silent,
) -> Search:
    """Evaluate `language_of(seed)` for every seed by `rule`; a pure function of its arguments.

    The price, which takes less time, is checked first: languages with a price out of bounds are not probed.
    Raises BadInput if none of the languages has the task, or the task has no price.

    >>> from isoloss.languages.pcfg import pcfg
    >>> from isoloss.languages.random_grammar import laptop_grammar
    >>> found = search_languages(lambda seed: pcfg(laptop_grammar(seed)), "prefix-8", range(3))
    >>> found.searched, len(found.ranked)
    (3, 0)
    """
    rule = rule or SearchRule()
    ranked: list[Candidate] = []
    with_task = with_price = 0
    names: set[str] = set()
    for number, seed in enumerate(seeds):
        language = language_of(seed)
        tasks = {found.name: found for found in language.tasks()}
        names |= tasks.keys()
        if task in tasks:
            with_task += 1
            priced = _price(language, tasks[task])
            if rule.has_price(priced):
                with_price += 1
                room = measure_room(language, tasks[task], settings)
                if rule.has_room(room):
                    ranked.append(Candidate(seed, room, priced, _entropy(language)))
        progress("languages", number + 1, len(seeds), f"{len(ranked)} with room at a price within bounds")
    if not with_task:
        choices = ", ".join(sorted(names)) or "other dials"
        raise BadInput(f"no language of this kind has a task {task!r}; choose {choices}")
    ranked.sort(key=lambda candidate: -candidate.room.room.value)
    return Search(task, len(seeds), with_task, with_price, tuple(ranked))


def _price(language: Language, task: Task) -> Record:
    priced = price(language, task, PRICED_SENTENCES)
    if priced is None:
        raise BadInput(f"no price is defined for {task.name} of such a language; search another kind")
    return priced


def _entropy(language: Language) -> Estimate:
    record = language_entropy(language, ENTROPY_SENTENCES, seed=0)[0]
    return Estimate(record.value, record.standard_error or 0.0, record.n)
