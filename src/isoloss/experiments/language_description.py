"""The content of a language's page: sentences, a word's distributions, entropy, tasks, and cost."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.executors.job import Job
from isoloss.experiments.languages import LanguagePlan
from isoloss.languages.causal_lm import CausalLM
from isoloss.languages.language import Derivation, Described, DrawsDerivations, Facts, Language, kind_of
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import Task
from isoloss.measurements.entropy import language_entropy, usual_sentences
from isoloss.measurements.room_and_price import RoomSettings, measure_room, price
from isoloss.progress import Progress, silent
from isoloss.results.estimate import sample_mean
from isoloss.results.record import Record
from isoloss.results.store import read_sealed, write_sealed
from isoloss.results.tensors import as_plain, from_plain
from isoloss.seeds import derived_seed

SHOWN = 6
TIMED = 256


@dataclass(frozen=True)
class WordDistributions:
    """The exact distributions of one word of a sentence; `position` counts from 0.

    `masked` is Pr(. | all other words), `following` Pr(. | the words before), the end last.
    """

    words: tuple[str, ...]
    position: int
    masked: Float[Tensor, " c"]
    following: Float[Tensor, " c_1"]


@dataclass(frozen=True)
class TaskDescription:
    """A task and the properties of its exact posterior.

    `ceiling` is the mean of the posterior's largest probability: the best possible accuracy for the latent
    variable given the sentence. `blind` is the accuracy of the best constant answer. `majority` is the share
    of the most common label, where labels are the posterior's argmax. `room` and `price` are those of
    `measurements.room_and_price`; there is no price if it is undefined. `asked_of` is what the task is asked
    of, where that is not the language's sentences.
    """

    name: str
    classes: int
    ceiling: Record
    blind: Record
    majority: Record
    room: Record
    price: Record | None
    asked_of: str = ""

    @property
    def records(self) -> tuple[Record, ...]:
        """Every number of the task."""
        measured = (self.ceiling, self.blind, self.majority, self.room)
        return measured if self.price is None else (*measured, self.price)

    @property
    def room_and_price(self) -> str:
        """Both in words, with their errors."""
        room = f"room {self.room}"
        if self.price is None:
            return f"{room}; no price defined"
        price, exactly = self.price, " exactly" if self.price.standard_error is None else ""
        return f"{room}; price {price} nats{exactly}, given {price.settings['given']}"


@dataclass(frozen=True)
class LanguageDescription:
    """Everything that the page of a language shows; `facts` are names and values in words."""

    source: str
    kind: str
    vocabulary: tuple[str, ...]
    maximum_length: int
    facts: Facts
    sentences: tuple[tuple[str, ...], ...]
    word: WordDistributions
    derivation: Derivation | None
    entropy: tuple[Record, ...]
    tasks: tuple[TaskDescription, ...]
    speed: Record

    @property
    def records(self) -> tuple[Record, ...]:
        """Every number of the page."""
        of_tasks = (record for task in self.tasks for record in task.records)
        return (*self.entropy, *of_tasks, self.speed)


def describe_language(
    language: Language, source: str, sentences: int | None = None, seed: int = 0, progress: Progress = silent
) -> LanguageDescription:
    """Draw `sentences` for each average (`usual_sentences` when None) and compute what the page shows.

    A task's room is trained on three times as many sentences, and tested on four times as many. Everything
    except the speed is a function of the arguments. The distributions shown are those of the middle word of
    the first sentence that `sample` draws with `seed`. Raises BadInput for fewer than two sentences.

    >>> from isoloss.languages.dyck import dyck
    >>> description = describe_language(dyck(4), "by hand", sentences=10)
    >>> description.kind, description.word.masked.amax().item(), len(description.records)
    ('Dyck language', 1.0, 5)
    """
    n = usual_sentences(language) if sentences is None else sentences
    if n < 2:
        raise BadInput(f"{n} sentences have no standard error; draw at least 2")
    shown = language.sample(SHOWN, torch.Generator().manual_seed(seed))
    words = tuple(
        tuple(language.vocabulary[word] for word in ids[:length])
        for ids, length in zip(shown.ids.tolist(), shown.lengths.tolist(), strict=True)
    )
    first = shown[:1]
    return LanguageDescription(
        source=source,
        kind=kind_of(language),
        vocabulary=language.vocabulary,
        maximum_length=language.maximum_length,
        facts=language_facts(language),
        sentences=words,
        word=_word_distributions(language, first, words[0], progress),
        derivation=_derivation(language, seed),
        entropy=tuple(language_entropy(language, n, seed, progress)),
        tasks=tuple(_task(language, task, n, seed, progress) for task in language.tasks()),
        speed=_speed(language, min(n, TIMED), seed),
    )


def _word_distributions(
    language: Language, sentence: Sentences, words: tuple[str, ...], progress: Progress
) -> WordDistributions:
    position = len(words) // 2
    if isinstance(language, CausalLM):
        place = torch.tensor([position])
        masked = language.masked_log_probabilities_at(sentence, torch.zeros_like(place), place, progress)[0]
    else:
        masked = language.masked_log_probabilities(sentence)[0, position]
    following = language.next_log_probabilities(sentence)[0, position]
    return WordDistributions(words, position, masked.exp(), following.exp())


def _derivation(language: Language, seed: int) -> Derivation | None:
    """The first sentence's derivation, where there is one."""
    if not isinstance(language, DrawsDerivations):
        return None
    return language.sample_derivations(1, torch.Generator().manual_seed(seed))[0]


def _task(language: Language, task: Task, sentences: int, seed: int, progress: Progress) -> TaskDescription:
    progress(f"task {task.name}", 0, 1)
    task_seed = derived_seed(seed, task.name)
    drawn = task.sample(sentences, torch.Generator().manual_seed(task_seed))
    best = int(drawn.posterior.sum(0).argmax())
    most_common = drawn.labels == drawn.labels.mode().values

    def record(quantity: str, values: Tensor) -> Record:
        found = sample_mean(values.double())
        return found.record(quantity, "fraction", task_seed, settings={"task": task.name})

    room = measure_room(language, task, RoomSettings(3 * sentences, 4 * sentences, seed=seed), progress)
    priced = price(language, task, 2 * sentences, seed)
    progress(f"task {task.name}", 1, 1)

    return TaskDescription(
        task.name,
        len(task.classes),
        ceiling=record("latent_agreement", drawn.posterior.amax(1)),
        blind=record("latent_agreement_of_one_answer", drawn.posterior[:, best]),
        majority=record("chance_accuracy", most_common),
        room=room.record,
        price=priced,
        asked_of=getattr(task, "asked_of", ""),
    )


def _speed(language: Language, n: int, seed: int) -> Record:
    """Sentences per second for masked distributions at all positions, computed on this machine.

    Of the first n that the entropy was computed on, so that all charts are planned: a plan takes longer than
    the distributions of a few sentences.
    """
    if isinstance(language, CausalLM):
        whole = language.distribution_cost(torch.arange(language.length))
        return Record("masked_distribution_speed", 1 / language.seconds(whole), "sentences/s", None, 1)
    sentences = language.sample(n, torch.Generator().manual_seed(seed))
    begun = time.perf_counter()
    language.masked_log_probabilities(sentences)
    return Record("masked_distribution_speed", n / (time.perf_counter() - begun), "sentences/s", None, n)


def language_facts(language: Language) -> Facts:
    """What the page says of a language: its size, what it says of itself, and its digest.

    >>> from isoloss.languages.dyck import dyck
    >>> language_facts(dyck(4))[:3]
    (('words', '2'), ('longest sentence', '4 words'), ('strings', '6, all equally likely'))
    """
    size: Facts = (
        ("words", f"{len(language.vocabulary):,}"),
        ("longest sentence", f"{language.maximum_length} words"),
    )
    described = language.facts() if isinstance(language, Described) else ()
    return (*size, *described, ("digest", language.digest))


def description_jobs(plans: Iterable[LanguagePlan], output: Path) -> list[Job]:
    """One job for each language whose description is missing or damaged in `output`."""
    return [
        Job(f"page of language {plan.digest[:8]}", partial(_describe, plan, output), cost=1.0)
        for plan in plans
        if cached_description(plan, output) is None
    ]


def cached_description(plan: LanguagePlan, output: Path) -> LanguageDescription | None:
    """The description in `output`; None if there is none that can be read. Making one takes seconds."""
    try:
        return read_description(description_file(plan, output), plan.digest)
    except BadInput:
        return None


def description_file(plan: LanguagePlan, output: Path) -> Path:
    """The file of a language's description."""
    return output / "portraits" / f"{plan.digest[:16]}.json"


def _describe(plan: LanguagePlan, output: Path, progress: Progress) -> Sequence[str]:
    language, path = plan.language(output, progress), description_file(plan, output)
    damaged = path.exists()  # or else there would be nothing to compute
    size = f"{plan.words:,} words, sentences of at most {plan.maximum_length}"
    write_description(path, describe_language(language, size, progress=progress), plan.digest)
    return (f"{path} was damaged or of another version; it has been made again",) if damaged else ()


def write_description(path: Path, description: LanguageDescription, name: str) -> None:
    """Write the description of the language of that name. Raises IsolossError where it cannot be written."""
    content = as_plain(LanguageDescription, replace(description, derivation=None))
    if description.derivation is not None:
        content["derivation"] = _nodes(description.derivation)
    write_sealed(path, content, name)


def read_description(path: Path, name: str) -> LanguageDescription:
    """What `write_description` wrote under that name. Raises BadInput where the file is anything else."""
    content = read_sealed(path, name)
    try:
        nodes = content.pop("derivation")
        found: LanguageDescription = from_plain(LanguageDescription, content | {"derivation": None})
        return found if nodes is None else replace(found, derivation=_tree(nodes))
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # other content when it was written
        raise BadInput(f"{path} is a description of another version; delete it and run again") from error


def _nodes(derivation: Derivation) -> list[list[Any]]:
    """Each node's label and how many children it has, the node before its children, however deep it is."""
    found: list[list[Any]] = []
    pending = [derivation]
    while pending:
        node = pending.pop()
        found.append([node.label, len(node.children)])
        pending.extend(reversed(node.children))
    return found


def _tree(nodes: list[list[Any]]) -> Derivation:
    """The derivation with these `_nodes`: from the last on, each takes its children off the pile."""
    pile: list[Derivation] = []
    for label, children in reversed(nodes):
        pile.append(Derivation(label, tuple(pile.pop() for _ in range(children))))
    return pile.pop()
