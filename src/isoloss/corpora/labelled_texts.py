"""Labelled texts: a downstream task on real text, before tokenisation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from isoloss.errors import BadInput
from isoloss.progress import Progress


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
    """Classification of real text: the names of its classes, and examples of which no two parts share a text.

    `validation` chooses a fine-tuned model's settings; `test` is used only once.
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
        ...

    @property
    def description(self) -> str:
        """A description of its texts and labels, their origin and their licence: sentences for a page."""
        ...

    def is_at_hand(self, cache: Path) -> bool:
        """Whether `task` needs nothing to be fetched."""
        ...

    def task(self, cache: Path, progress: Progress) -> TextTask:
        """The task; fetched files are kept in `cache`. Raises IsolossError if it is not available."""
        ...


@dataclass(frozen=True)
class GivenTask:
    """A task with given texts: for tests, and for the smallest scale."""

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
