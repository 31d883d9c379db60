"""Room, price and decision: what a language and a task can show, known before any model is trained.

**Room** is how much of a task cannot be read off the words: 1 - the accuracy of a linear probe on one-hot
words. Without it, a probe's accuracy on a model's vectors says nothing about the model.

**Price** is how much a model's loss increases by ignoring the structure that determines the label: that of
the exact masked distribution given a narrow context (see `languages.narrow_context`) minus that given all
words, E_x mean_t KL(Pr(. | x_{-t}) || Pr(. | narrow context of t)). If the price exceeds the KL of trained
models, each must have learnt the label's structure; if it is far below, none has a reason to.

**Decision** is how probable the label, the posterior's argmax, is. If it hardly exceeds the second, labels
hinge on differences of probability that cost next to no loss.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.languages.language import Language, SentenceSource
from isoloss.languages.narrow_context import NarrowContext, narrow_context
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import Task
from isoloss.measurements.entropy import masked_entropy
from isoloss.measurements.linear_probe import Accuracy, ProbeSettings, train_heads
from isoloss.measurements.probe_minibatches import OneHotRows
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, sample_mean
from isoloss.results.record import Record, Setting
from isoloss.seeds import derived_seed

WORDS_PROBE = ProbeSettings(seeds=(0, 1), epochs=40, learning_rate=1e-2, batch_size=64)
"""Settings with which heads on one-hot words come to rest soon: on the chosen languages ten times the epochs
make the words tell no more."""

LEAST_ROOM, MOST_CHANCE = 0.25, 0.5
"""What a headline task must have at least and at most."""

ENUMERATED = 1 << 17
"""Languages of at most so many different sentences (in kinds of words) have an exact price."""

PRICED_SENTENCES = 2000
DECIDED_SENTENCES = 2000
SENTENCES_AT_ONCE = 2048


@dataclass(frozen=True)
class RoomSettings:
    """How many labelled sentences the probe on words is trained and tested on, as the models' should be."""

    train: int = 3000
    test: int = 4000
    probe: ProbeSettings = WORDS_PROBE
    seed: int = 0


@dataclass(frozen=True)
class Room:
    """`room` of a task, and `chance`, the accuracy of its most common label; errors are over sentences."""

    task: str
    room: Estimate
    chance: Estimate
    settings: RoomSettings

    @property
    def record(self) -> Record:
        """The room as a record."""
        settings: dict[str, Setting] = {"task": self.task, "examples": self.settings.train}
        return self.room.record("room", "fraction", self.settings.seed, settings=settings)

    @property
    def refusal(self) -> str | None:
        """Why the task is unsuitable for the headline, a sentence without full stop; None if it is suitable.

        >>> few = RoomSettings()
        >>> Room("prefix-8", Estimate(0.02, 0.002, 4000), Estimate(0.45, 0.01, 4000), few).refusal
        'prefix-8 has no room: a linear probe on the words alone is right on 0.980, more than 0.75'
        >>> Room("prefix-8", Estimate(0.4, 0.01, 4000), Estimate(0.45, 0.01, 4000), few).refusal
        """
        if self.room.value < LEAST_ROOM:
            return (
                f"{self.task} has no room: a linear probe on the words alone is right on "
                f"{1 - self.room.value:.3f}, more than {1 - LEAST_ROOM:g}"
            )
        if self.chance.value > MOST_CHANCE:
            return (
                f"{self.task} is easily guessed: always giving its most common label is right on "
                f"{self.chance.value:.3f}, more than {MOST_CHANCE:g}"
            )
        return None


def measure_room(
    language: SentenceSource, task: Task, settings: RoomSettings | None = None, progress: Progress = silent
) -> Room:
    """The room of one of the language's tasks, on freshly drawn training and test sentences.

    Raises BadInput for fewer than two test sentences.
    """
    settings = settings or RoomSettings()
    if settings.train < 1 or settings.test < 2:
        raise BadInput(
            f"{settings.train} training and {settings.test} test sentences leave no error bar; "
            "give at least 1 and 2"
        )
    train, test = (
        task.sample(n, torch.Generator().manual_seed(derived_seed(settings.seed, f"room of {task.name}", k)))
        for k, n in enumerate((settings.train, settings.test))
    )
    width, words = max(part.sentences.ids.shape[1] for part in (train, test)), len(language.vocabulary)
    read, asked = (_words_where(part.sentences, words, width) for part in (train, test))
    heads = train_heads(read, train.labels, len(task.classes), settings.probe, progress)
    accuracy = Accuracy.of("linear_probe", (heads.predict(asked) == test.labels).double())
    chance = sample_mean((test.labels == test.labels.mode().values).double())
    return Room(task.name, sample_mean(1 - accuracy.correct), chance, settings)


def _words_where(sentences: Sentences, words: int, width: int) -> OneHotRows:
    """Which word is at each of `width` places, a feature each, as `OneHotWords` has them."""
    place = torch.arange(sentences.ids.shape[1])
    return OneHotRows((words * place + sentences.ids).where(sentences.real, -1), width * words)


@dataclass(frozen=True)
class Decision:
    """Of a task's exact posteriors, the mean `largest` probability and its mean `gap` to the second largest.

    1 and 1 if every sentence determines the label. Errors are over the sentences.
    """

    largest: Estimate
    gap: Estimate


def measure_decision(task: Task, sentences: int = DECIDED_SENTENCES, seed: int = 0) -> Decision:
    """The decision of a task's posterior, on freshly drawn sentences.

    Raises BadInput for fewer than two sentences.

    >>> from isoloss.languages.notation import parse_grammar
    >>> from isoloss.languages.pcfg import pcfg
    >>> text = "S -> X [0.5] | Y [0.5]; X -> A A [1]; Y -> A A [0.6] | B B [0.4]; A -> 'a' [1]; B -> 'b' [1]"
    >>> decision = measure_decision(pcfg(parse_grammar(text.replace("; ", chr(10)))).tasks()[0], 20_000)
    >>> round(decision.largest.value, 1), round(decision.gap.value, 1)  # 0.5 + 0.2 and 0.5 - 0.3 + 0.2
    (0.7, 0.4)
    """
    if sentences < 2:
        raise BadInput(f"{sentences} sentences leave no error bar; give at least 2")
    generator = torch.Generator().manual_seed(derived_seed(seed, f"decision of {task.name}"))
    posterior = torch.nn.functional.pad(task.sample(sentences, generator).posterior, (0, 1))
    largest, second = posterior.topk(2, dim=1).values.unbind(1)  # of a single class 1 and 0
    return Decision(sample_mean(largest), sample_mean(largest - second))


def price(language: Language, task: Task, sentences: int = PRICED_SENTENCES, seed: int = 0) -> Record | None:
    """The price of one of the language's tasks, in nats; None if no narrow context is defined.

    Exact, over all sentences, if there are at most `ENUMERATED` of them up to words of the same kind; the
    record then has no standard error, and n counts them. Otherwise estimated on `sentences` drawn ones.

    >>> from isoloss.languages.notation import parse_grammar
    >>> from isoloss.languages.pcfg import pcfg
    >>> lines = ["S -> X [0.5] | Y [0.5]", "X -> A A [1]", "Y -> B B [1]", "A -> 'a' [1]", "B -> 'b' [1]"]
    >>> same_twice = pcfg(parse_grammar(chr(10).join(lines)))
    >>> record = price(same_twice, same_twice.tasks()[0])
    >>> round(record.value, 4), record.settings["given"]
    (0.6931, 'the aligned window of 1 word')
    """
    context = narrow_context(task)
    if context is None:
        return None
    kinds = int(context.kinds.max()) + 1
    settings: dict[str, Setting] = {"task": task.name, "given": context.seen}
    if kinds**context.length <= ENUMERATED:
        value, counted = _over_all(context, kinds)
        # A divergence is not negative, though rounding may make it so where it is zero.
        return Record("price", max(value, 0.0), "nats", None, counted, settings=settings)
    drawn = language.sample(sentences, torch.Generator().manual_seed(derived_seed(seed, "price")))
    estimate = sample_mean(_divergences(context, context.kinds[drawn.ids]))
    return estimate.record("price", "nats", seed, settings=settings)


def _over_all(context: NarrowContext, kinds: int) -> tuple[float, int]:
    every = torch.cartesian_prod(*[torch.arange(kinds)] * context.length).view(-1, context.length)
    weights = torch.cat([context.log_weight(ids) for ids in torch.split(every, SENTENCES_AT_ONCE)]).exp()
    possible = weights > 0
    divergences = _divergences(context, every[possible])
    return float(divergences @ weights[possible] / weights.sum()), int(possible.sum())


def _divergences(context: NarrowContext, ids: Int[Tensor, "n T"]) -> Float[Tensor, " n"]:
    """mean_t KL(distribution given all other words || narrow distribution) of each sentence, in nats."""
    means = []
    for part in torch.split(ids, SENTENCES_AT_ONCE):
        whole, narrow = context.masked_distribution(part), context.narrow_distribution(part)
        terms = torch.special.xlogy(whole, whole) - torch.special.xlogy(whole, narrow)
        means.append(terms.sum(2).mean(1))
    return torch.cat(means)


ENTROPY_SENTENCES = 500


@dataclass(frozen=True)
class SearchRule:
    """Which languages are ranked by the room of their task: those within these inclusive bounds.

    Prices, in nats, are by default from half to twice 0.001 to 0.004 nats, the KL at which small models on
    small languages plateau. `least_decided` bounds the mean largest probability of the task's posterior.
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
    """The `ranked` languages, most room first, and how many passed one bound after another."""

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
    """Evaluate `language_of(seed)` for every seed by `rule`; price and decision, which take less time, first.

    Raises BadInput if none of the languages has the task, or the task has no price.

    >>> from isoloss.languages.pcfg import pcfg
    >>> from isoloss.languages.random_grammar import laptop_grammar
    >>> found = search_languages(lambda seed: pcfg(laptop_grammar(seed)), "prefix-8", range(1))
    >>> found.searched, len(found.ranked)
    (1, 0)
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
            priced = price(language, tasks[task])
            if priced is None:
                raise BadInput(f"no price is defined for {task} of such a language; search another kind")
            if rule.cheapest <= priced.value <= rule.dearest:
                with_price += 1
                decision = measure_decision(tasks[task])
                if decision.largest.value >= rule.least_decided:
                    decided += 1
                    room = measure_room(language, tasks[task], settings)
                    if room.room.value >= rule.least_room and room.chance.value <= rule.most_chance:
                        entropy = masked_entropy(language, ENTROPY_SENTENCES, seed=0)
                        ranked.append(Candidate(seed, room, priced, decision, entropy))
        progress("languages", number + 1, len(seeds), f"{len(ranked)} with room at a price within bounds")
    if not with_task:
        choices = ", ".join(sorted(names)) or "other dials"
        raise BadInput(f"no language of this kind has a task {task!r}; choose {choices}")
    ranked.sort(key=lambda candidate: -candidate.room.room.value)
    return Search(task, len(seeds), with_task, with_price, decided, tuple(ranked))
