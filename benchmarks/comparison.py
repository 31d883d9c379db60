"""Two ways of doing the same work, timed in turn in one process."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """Median seconds of the library and of its peer, and the median of the pairs' ratios."""

    name: str
    peer: str
    seconds: float
    peer_seconds: float
    times_as_fast: float


def compare(
    name: str,
    ours: Callable[[], object],
    peer: str,
    theirs: Callable[[], object],
    pairs: int,
    share: float = 1.0,
) -> Comparison:
    """Time both in turn, after one warm-up each; `theirs` does a `share` of the peer's whole work."""
    ours()
    theirs()
    times = [(seconds(ours), seconds(theirs) / share) for _ in range(pairs)]
    return Comparison(
        name,
        peer,
        statistics.median(own for own, _ in times),
        statistics.median(other for _, other in times),
        statistics.median(other / own for own, other in times),
    )


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
