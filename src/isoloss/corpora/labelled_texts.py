"""Labelled texts: a downstream task on real text, and its parts, of which no two share an example."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Integer

from isoloss.corpora.packed_corpus import PackedCorpus, is_held_out, text_hash
from isoloss.errors import BadInput
from isoloss.objectives.tokens import FIRST_WORD
from isoloss.progress import Progress

COMPARED = 8
"""How many tokens are compared at once; texts that match in them are then compared in full."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class LabelledTexts:
    """n texts, or n pairs of texts, each with the index of its class.

    `seconds` holds the second text of each pair (a sentence that may contain the answer, a hypothesis) and is
    None if an example is one text. Raises BadInput if the lengths of the three differ.

    >>> pair = LabelledTexts(("Who won?",), ("The red team won.",), (1,))
    >>> len(pair), pair[[0]].labels
    (1, (1,))
    """

    texts: tuple[str, ...]
    seconds: tuple[str, ...] | None
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        seconds = len(self.texts) if self.seconds is None else len(self.seconds)
        if not len(self.texts) == seconds == len(self.labels):
            raise BadInput(
                f"{len(self.texts)} texts, {seconds} second texts and {len(self.labels)} labels do not "
                "match; give one of each for every example"
            )

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, rows: Sequence[int]) -> "LabelledTexts":
        seconds = None if self.seconds is None else tuple(self.seconds[row] for row in rows)
        texts = tuple(self.texts[row] for row in rows)
        return LabelledTexts(texts, seconds, tuple(self.labels[row] for row in rows))


@dataclass(frozen=True)
class TextTask:
    """Classification of real text: the names of its classes, and examples, each of which is in one part.

    Whether two parts may share one text of a pair is up to the source: a file of a user's shares none
    (`linked_groups`), while GLUE's own parts do, as do claims about several pages. `validation` chooses a
    fine-tuned model's settings; `test` is used only once.
    """

    name: str
    classes: tuple[str, ...]
    train: LabelledTexts
    validation: LabelledTexts
    test: LabelledTexts


@runtime_checkable
class TaskSource(Protocol):
    """A frozen dataclass of plain settings, which determine the task's whole content."""

    @property
    def name(self) -> str:
        """The task's name, such as "sst-2 form"."""

    @property
    def description(self) -> str:
        """A description of its texts and labels, their origin and their licence: sentences for a page."""

    def is_at_hand(self, cache: Path) -> bool:
        """Whether `task` needs nothing to be fetched."""

    def task(self, cache: Path, progress: Progress) -> TextTask:
        """The task; fetched files are kept in `cache`. Raises IsolossError if it is not available."""


@dataclass(frozen=True)
class GivenTask:
    """A task with given texts: for tests, and for the smallest scale."""

    given: TextTask
    description: str = "texts given as they are"

    @property
    def name(self) -> str:
        return self.given.name

    def is_at_hand(self, cache: Path) -> bool:
        return True

    def task(self, cache: Path, progress: Progress) -> TextTask:
        return self.given


@dataclass(frozen=True)
class Shares:
    """The shares of the hashes held out for validation and test; training has the rest."""

    validation: float
    test: float = 0


def example_hashes(examples: LabelledTexts) -> list[bytes]:
    """A key of each example, up to white space and capitals: of its text, or of both texts of a pair.

    A pair's key starts with that of its first text, so that pairs with the same first text go into one part.
    """
    return [b"".join(names) for names in _text_hashes(examples)]


def distinct(examples: LabelledTexts) -> LabelledTexts:
    """Each example once, in the order of first occurrence; none whose duplicates have different labels.

    >>> distinct(LabelledTexts(("Good.", "good. ", "Odd.", "odd."), None, (1, 1, 0, 1)))
    LabelledTexts(texts=('Good.',), seconds=None, labels=(1,))
    """
    labels: dict[bytes, set[int]] = {}
    first: dict[bytes, int] = {}
    for row, (name, label) in enumerate(zip(example_hashes(examples), examples.labels, strict=True)):
        labels.setdefault(name, set()).add(label)
        first.setdefault(name, row)
    return examples[[row for name, row in first.items() if len(labels[name]) == 1]]


def sharing_no_text(examples: LabelledTexts, other: LabelledTexts) -> LabelledTexts:
    """The examples none of whose texts occur in `other`."""
    known = {name for names in _text_hashes(other) for name in names}
    rows = [row for row, names in enumerate(_text_hashes(examples)) if known.isdisjoint(names)]
    return examples[rows]


def linked_groups(examples: LabelledTexts) -> list[str]:
    """The name of each example's group: those that share a text, directly or through others, are in one.

    >>> pairs = LabelledTexts(("a", "b", "b", "c"), ("x", "x", "y", "z"), (0, 1, 0, 1))
    >>> groups = linked_groups(pairs)
    >>> groups[0] == groups[1] == groups[2] != groups[3]
    True
    """
    above: dict[bytes, bytes] = {}

    def root(name: bytes) -> bytes:
        while (parent := above.setdefault(name, name)) != name:
            above[name] = above[parent]  # path halving, for later look-ups
            name = parent
        return name

    every = _text_hashes(examples)
    for names in every:
        roots = {root(name) for name in names}
        above.update(dict.fromkeys(roots, min(roots)))
    return [root(names[0]).hex() for names in every]


def split_by_hash(
    name: str,
    classes: tuple[str, ...],
    examples: LabelledTexts,
    shares: Shares,
    groups: Sequence[str] | None = None,
) -> TextTask:
    """Distinct examples in three parts; those of one group (an article, a claim) are in the same part.

    A group's hash decides, by default the example's, regardless of the other examples and their order.

    >>> texts = tuple(str(number) for number in range(1000))
    >>> task = split_by_hash("n", ("a", "b"), LabelledTexts(texts, None, (0,) * 1000), Shares(0.1, 0.2))
    >>> len(task.train), len(task.validation), len(task.test)
    (695, 100, 205)
    """
    hashes = example_hashes(examples)
    group_of: dict[bytes, bytes] = {}
    for digest, group in zip(hashes, hashes if groups is None else map(text_hash, groups), strict=True):
        group_of.setdefault(digest, group)
    examples = distinct(examples)
    deciding = [group_of[digest] for digest in example_hashes(examples)]
    held_out = [is_held_out(key, shares.validation + shares.test) for key in deciding]
    validates = [is_held_out(key, shares.validation) for key in deciding]
    rows = range(len(examples))
    return TextTask(
        name,
        classes,
        train=examples[[row for row in rows if not held_out[row]]],
        validation=examples[[row for row in rows if validates[row]]],
        test=examples[[row for row in rows if held_out[row] and not validates[row]]],
    )


@dataclass(frozen=True)
class TaskSizes:
    """The maximum number of examples of each part; None: all."""

    train: int | None = None
    validation: int | None = None
    test: int | None = None

    def __post_init__(self) -> None:
        for size in (self.train, self.validation, self.test):
            if size is not None and size < 1:
                raise BadInput(f"a part of a task needs at least one example, not {size}")

    def of(self, task: TextTask) -> TextTask:
        """The task with the examples of lowest hash in each part: smaller sets are subsets of larger ones."""
        return replace(
            task,
            train=_first(task.train, self.train),
            validation=_first(task.validation, self.validation),
            test=_first(task.test, self.test),
        )


def _first(examples: LabelledTexts, size: int | None) -> LabelledTexts:
    keys = example_hashes(examples)
    return examples[sorted(range(len(examples)), key=keys.__getitem__)[:size]]


def _text_hashes(examples: LabelledTexts) -> list[tuple[bytes, ...]]:
    columns = [examples.texts] if examples.seconds is None else [examples.texts, examples.seconds]
    return list(zip(*(map(text_hash, column) for column in columns), strict=True))


def stand_in_validation(corpus: PackedCorpus, examples: LabelledTexts) -> list[bool]:
    """Whether an example's text, or either text of a pair, occurs within one validation sequence.

    Texts are compared as written by the corpus's tokenizer: capitals and white space make no difference if
    they make none to the tokenizer. A text that spans two sequences is not found. 16 bytes per token of the
    part.
    """
    sequences = corpus.validation_sequences().ids.numpy()
    first = standing_in(sequences, _words(corpus, examples.texts))
    if examples.seconds is None:
        return first
    second = standing_in(sequences, _words(corpus, examples.seconds))
    return [either or other for either, other in zip(first, second, strict=True)]


def standing_in(sequences: Integer[np.ndarray, "n T"], texts: list[list[int]]) -> list[bool]:
    """Whether the words of each text occur consecutively in one of the sequences; an empty text's do not.

    >>> standing_in(np.array([[5, 6, 7, 8], [9, 5, 7, -1]]), [[6, 7], [5, 7, 9], [8, 9], []])
    [True, False, False, False]
    """
    by_length: dict[int, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        if 0 < len(text) <= sequences.shape[1]:
            by_length[min(len(text), COMPARED)].append(place)
    found = [False] * len(texts)
    for length, places in by_length.items():
        windows = _hashes(sequences, length)
        wanted = _hashes(np.array([texts[place][:length] for place in places]), length)[:, 0]
        rows, starts = np.isin(windows, wanted).nonzero()
        begun = defaultdict(list)
        for row, start in zip(rows.tolist(), starts.tolist(), strict=True):
            begun[int(windows[row, start])].append((row, start))
        for place, name in zip(places, wanted.tolist(), strict=True):
            text = texts[place]
            found[place] = any(
                sequences[row, start : start + len(text)].tolist() == text for row, start in begun[name]
            )
    return found


def _words(corpus: PackedCorpus, texts: tuple[str, ...]) -> list[list[int]]:
    """Each text's words by number, as numbered in `PackedCorpus`."""
    encoded = corpus.tokenizer.backend_tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [[token - FIRST_WORD for token in text.ids] for text in encoded]


def _hashes(rows: Integer[np.ndarray, "n T"], length: int) -> Integer[np.ndarray, "n starts"]:
    """A hash of every `length` consecutive numbers: equal for equal ones, nearly always different if not."""
    numbers = rows.astype(np.uint64)
    windows = np.zeros((len(rows), rows.shape[1] - length + 1), np.uint64)
    for place in range(length):
        windows = (windows + numbers[:, place : place + windows.shape[1]] + np.uint64(1)) * _FACTOR
        windows ^= windows >> np.uint64(29)
    return windows
