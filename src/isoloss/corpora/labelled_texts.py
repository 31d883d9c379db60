"""Texts with labels: what a downstream task on real text is, before any tokenizer has seen it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from isoloss.errors import BadInput
from isoloss.progress import Progress


@dataclass(frozen=True)
class LabelledTexts:
    """n texts, or n pairs of texts, each with the number of its class.

    `seconds` holds the second text of each pair (a sentence that may hold the answer, a hypothesis) and is
    None where an example is one text. Raises BadInput where the three are not equally long.

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
    """A classification of real text: its classes by name, and examples of which no two parts share a text.

    `validation` chooses a fine-tuned model's settings; `test` is looked at once.
    """

    name: str
    classes: tuple[str, ...]
    train: LabelledTexts
    validation: LabelledTexts
    test: LabelledTexts


@runtime_checkable
class TaskSource(Protocol):
    """A frozen dataclass of plain settings, which name the task's whole content."""

    @property
    def name(self) -> str:
        """What the task is called, such as "sst-2 form"."""
        ...

    @property
    def description(self) -> str:
        """What its texts and labels are, where they come from, and their licence: sentences for a page."""
        ...

    def is_at_hand(self, cache: Path) -> bool:
        """Whether `task` needs nothing from outside."""
        ...

    def task(self, cache: Path, progress: Progress) -> TextTask:
        """The task; what is fetched is kept in `cache`. Raises IsolossError where it cannot be had."""
        ...


@dataclass(frozen=True)
class GivenTask:
    """A task whose texts are at hand: for tests, and for the smallest scale."""

    given: TextTask
    description: str = "texts given as they are"

    @property
    def name(self) -> str:
        """See `TaskSource`."""
        return self.given.name

    def is_at_hand(self, cache: Path) -> bool:  # noqa: ARG002
        """See `TaskSource`."""
        return True

    def task(self, cache: Path, progress: Progress) -> TextTask:  # noqa: ARG002
        """See `TaskSource`."""
        return self.given
