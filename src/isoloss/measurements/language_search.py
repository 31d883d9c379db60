"""Languages ranked by the room of their task, among those whose price and decision are within bounds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.languages.task import Task
from isoloss.measurements.entropy import masked_entropy
from isoloss.measurements.room_and_price import (
    LEAST_ROOM,
    MOST_CHANCE,
    Decision,
    Room,
    RoomSettings,
    measure_decision,
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
    the KL at which small models on small languages plateau. `least_decided` bounds the mean largest
    probability of the task's posterior, which by default is not bounded.
    """

    cheapest: float = 0.0005
    dearest: float = 0.008
    least_room: float = LEAST_ROOM
    most_chance: float = MOST_CHANCE
    least_decided: float = 0.0

    def __post_init__(self) -> None:
        if self.cheapest > self.dearest:
            raise BadInput(
                f"no price is at least {self.cheapest:g} and at most {self.dearest:g} nats; swap the bounds"
            )


@dataclass(frozen=True)
class Candidate:
    """A language that satisfies the rule, by its seed; `entropy` is that of the masked word, in nats."""

    seed: int
    room: Room
    price: Record
    decision: Decision
    entropy: Estimate


@dataclass(frozen=True)
class Search:
    """The `ranked` languages, most room first; of `searched` ones, `with_task` have the task, and so on.

    `decided` counts those whose price is within bounds and whose posterior is decided.
    """

    task: str
    searched: int
    with_task: int
    with_price: int
    decided: int
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

    Price and decision, which take less time, are checked first: languages without are not probed.
    Raises BadInput if none of the languages has the task, or the task has no price.

    >>> from isoloss.languages.pcfg import pcfg
    >>> from isoloss.languages.random_grammar import laptop_grammar
    >>> found = search_languages(lambda seed: pcfg(laptop_grammar(seed)), "prefix-8", range(3))
    >>> found.searched, len(found.ranked)
    (3, 0)
    """
    rule = rule or SearchRule()
    ranked: list[Candidate] = []
    with_task = with_price = decided = 0
    names: set[str] = set()
    for number, seed in enumerate(seeds):
        language = language_of(seed)
        tasks = {found.name: found for found in language.tasks()}
        names |= tasks.keys()
        if task in tasks:
            with_task += 1
            priced = _price(language, tasks[task])
            if rule.cheapest <= priced.value <= rule.dearest:
                with_price += 1
                decision = measure_decision(tasks[task])
                if decision.largest.value >= rule.least_decided:
                    decided += 1
                    room = measure_room(language, tasks[task], settings)
                    if room.room.value >= rule.least_room and room.chance.value <= rule.most_chance:
                        ranked.append(
                            Candidate(
                                seed,
                                room,
                                priced,
                                decision,
                                masked_entropy(language, ENTROPY_SENTENCES, seed=0),
                            )
                        )
        progress("languages", number + 1, len(seeds), f"{len(ranked)} with room at a price within bounds")
    if not with_task:
        choices = ", ".join(sorted(names)) or "other dials"
        raise BadInput(f"no language of this kind has a task {task!r}; choose {choices}")
    ranked.sort(key=lambda candidate: -candidate.room.room.value)
    return Search(task, len(seeds), with_task, with_price, decided, tuple(ranked))


def _price(language: Language, task: Task) -> Record:
    priced = price(language, task)
    if priced is None:
        raise BadInput(f"no price is defined for {task.name} of such a language; search another kind")
    return priced
