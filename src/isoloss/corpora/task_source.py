"""Where a task on real text comes from, as an experiment plans it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from isoloss.corpora.labelled_texts import TextTask
from isoloss.progress import Progress


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
