"""When to stop an estimate, at a relative error or at a budget, and which of them was reached."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol, runtime_checkable

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, sentences_between
from isoloss.progress import Progress, Share, silent, unheard
from isoloss.results.estimate import Estimate

FEWEST = 64
"""Values that an estimate must have before its own error may stop it: the error of fewer is itself too
uncertain, and stopping where it happens to be small would make error bars too narrow."""


def refuse_too_few(sentences: int, fewest: int = 2) -> None:
    """Raise BadInput for fewer sentences than an error bar takes."""
    if sentences < fewest:
        raise BadInput(f"a standard error takes at least {fewest} sentences, not {sentences}")


@dataclass(frozen=True)
class Stopping:
    """Stop at a relative standard error, a number of sentences or a number of seconds; None is no limit."""

    relative_error: float | None = None
    sentences: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.relative_error is not None and not 0 < self.relative_error < 1:
            raise BadInput(
                f"the relative error asked must be above 0 and below 1, not {self.relative_error}; 0.02 is "
                "2 %"
            )
        if self.sentences is not None:
            refuse_too_few(self.sentences)
        if self.seconds is not None and not self.seconds > 0:
            raise BadInput(f"the seconds to measure for must be above 0, not {self.seconds}")

    def reason(self, estimates: Sequence[Estimate], sentences: int, seconds: float) -> str | None:
        """The reason to stop after `sentences` and `seconds`, or None; all estimates must be precise enough.

        >>> Stopping(relative_error=0.1).reason([Estimate(10.0, 0.9, 100)], 100, 1.0)
        'the requested relative error was reached'
        """
        if self.relative_error is not None and all(
            estimate.n >= FEWEST and estimate.standard_error <= self.relative_error * abs(estimate.value)
            for estimate in estimates
        ):
            return "the requested relative error was reached"
        if self.sentences is not None and sentences >= self.sentences:
            return "the number of sentences allowed was reached"
        if self.seconds is not None and seconds >= self.seconds:
            return "the time allowed was over"
        return None


@runtime_checkable
class RunningEstimate(Protocol):
    """An estimate that accumulates sentences batch by batch."""

    @property
    def sentences(self) -> int:
        """How many sentences have been added."""
        ...

    @property
    def estimate(self) -> Estimate | None:
        """The estimate so far; None if there are too few sentences for an error bar."""
        ...

    def add(self, batch: Batch, share: Share = unheard) -> None:
        """Add a batch's sentences, all of them or, if it raises, none; `share` gets the fraction done."""
        ...


def measure_until(
    running: Sequence[RunningEstimate],
    batches: Iterable[Batch],
    stopping: Stopping,
    *,
    task: str,
    expected: int | None = None,
    progress: Progress = silent,
) -> str:
    """Pass every batch to every running estimate until `stopping` or the last batch; returns the reason.

    `expected` is the number of sentences that the batches hold, if it is known; that of a list is counted.
    """
    begun = monotonic()
    if expected is None and isinstance(batches, list | tuple):
        expected = sum(map(len, batches))
    for batch in batches:
        if not isinstance(batch, Batch):
            raise BadInput(
                f"a batch is a {type(batch).__name__}, which no objective has read; give "
                "map(objective.batch, loader)"
            )
        left = len(batch) if stopping.sentences is None else stopping.sentences - running[0].sentences
        batch = sentences_between(batch, 0, left) if left < len(batch) else batch
        if len(batch) == 0:
            continue
        for number, each in enumerate(running):
            each.add(batch, _within(batch, number, running, stopping, expected, task, progress))
        done, estimates = running[0].sentences, [each.estimate for each in running]
        known = [estimate for estimate in estimates if estimate is not None]
        if len(known) == len(running):
            reason = stopping.reason(known, done, monotonic() - begun)
            so_far = str(known[0])
            progress(task, done, _total(done, known, stopping, expected), so_far)
            if reason is not None:
                progress(task, done, done, so_far)
                return reason
    done = running[0].sentences
    if any(each.estimate is None for each in running):
        if not done:
            raise BadInput(
                "there are no sentences to measure on that have anything to predict; give at least 2"
            )
        refuse_too_few(done)
    progress(task, done, done)
    return "the sentences ended"


def _within(
    batch: Batch,
    number: int,
    running: Sequence[RunningEstimate],
    stopping: Stopping,
    expected: int | None,
    task: str,
    progress: Progress,
) -> Share:
    """Reports that a share of the batch is done by the estimate of that number, and all by those before it.

    Nothing is reported before the total is known.
    """
    others = [each.estimate for each in running]
    known = [estimate for estimate in others if estimate is not None]
    before = running[number].sentences
    certain = stopping.relative_error is None or len(known) == len(running)
    total = _total(before + len(batch), known if certain else [], stopping, expected)
    so_far = str(known[0]) if known else ""

    furthest = 0.0

    def report(share: float) -> None:
        nonlocal furthest
        furthest = max(furthest, share)  # what is done a second time, or tried in vain, does not go back
        done = before + len(batch) * (number + furthest) / len(running)
        progress(task, min(done, total - 1), total, so_far)

    return report


def _total(done: int, estimates: Sequence[Estimate], stopping: Stopping, expected: int | None) -> int:
    """The expected total number of sentences; above `done` while the end is not known."""
    limits = [limit for limit in (expected, stopping.sentences) if limit is not None]
    if stopping.relative_error is not None and estimates:
        worst = max(e.standard_error / max(abs(e.value), 1e-9 * e.standard_error, 1e-300) for e in estimates)
        times_as_good = min(worst / stopping.relative_error, 1e9)  # the square of more may be beyond numbers
        limits.append(int(done * max(1.0, times_as_good**2)))
    return max(min(limits, default=0), done + 1)
