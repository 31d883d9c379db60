"""Two ways of doing the same work, timed in turn in one process."""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass


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
    return of_pairs(name, peer, times)


def of_pairs(name: str, peer: str, times: Sequence[tuple[float, float]]) -> Comparison:
    """Of pairs of our seconds and the peer's."""
    own, other = (statistics.median(each) for each in zip(*times, strict=True))
    return Comparison(name, peer, own, other, statistics.median(theirs / ours for ours, theirs in times))


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def show(found: Sequence[Comparison], as_json: bool) -> None:
    """Print as JSON or a line each."""
    if as_json:
        print(json.dumps([asdict(comparison) for comparison in found], indent=2))
        return
    for each in found:
        print(f"{each.name:60}{1e3 * each.seconds:10.1f} ms{each.times_as_fast:7.2f} x {each.peer}")
