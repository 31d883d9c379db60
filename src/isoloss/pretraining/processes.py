"""Processes that train a model together: each holds all of it and processes its share of every batch."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from torch import Tensor

T = TypeVar("T")


@runtime_checkable
class Processes(Protocol):
    """The communication a run needs with its other processes; all call the methods in the same order."""

    @property
    def count(self) -> int:
        """How many train together."""
        ...

    @property
    def number(self) -> int:
        """Which one this is, from 0; 0 is the main process."""
        ...

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over the processes, bit-identical in all of them."""
        ...

    def on_main(self, work: Callable[[], T]) -> T:
        """Run `work` in the main process only; all wait, and return its result or raise its IsolossError."""
        ...

    def hold_the_same(self, tensors: Sequence[Tensor]) -> bool:
        """Whether these tensors are the same in all processes."""
        ...


class Alone:
    """One process, which has the whole batch and does everything itself."""

    count = 1
    number = 0

    def average(self, tensors: Sequence[Tensor]) -> None:
        """See `Processes.average`: nothing to do for a single process."""

    def on_main(self, work: Callable[[], T]) -> T:
        """See `Processes.on_main`."""
        return work()

    def hold_the_same(self, tensors: Sequence[Tensor]) -> bool:  # noqa: ARG002
        """See `Processes.hold_the_same`."""
        return True


ALONE = Alone()
