"""Verdicts: whether an interval lies inside the region that a claim allows, and Holm's levels for several."""

import gc
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from isoloss.errors import BadInput
from isoloss.results.record import in_brief


class Verdict(StrEnum):
    """The outcome of a claim: supported, contradicted, or neither."""

    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"
    INCONCLUSIVE = "inconclusive"

    @property
    def answer(self) -> str:
        """The claim as a question, answered in a word.

        >>> Verdict.INCONCLUSIVE.answer
        'open'
        """
        return {"supported": "yes", "not supported": "no", "inconclusive": "open"}[self]

    @property
    def mark(self) -> str:
        """What it is shown by at the beginning of a line."""
        return {"supported": "✓", "not supported": "✗", "inconclusive": "?"}[self]


def counts(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """Every verdict with its count.

    >>> {str(verdict): n for verdict, n in counts([Verdict.SUPPORTED]).items()}
    {'supported': 1, 'not supported': 0, 'inconclusive': 0}
    """
    found = Counter(verdicts)
    return {verdict: found[verdict] for verdict in Verdict}


@dataclass(frozen=True)
class Region:
    """The open interval from `low` to `high`, one of which may be infinite; see `above`, `below`, `within`.

    Raises BadInput for an empty interval, and where neither bound is finite.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low < self.high or not self.bounds:
            raise BadInput(
                f"a claim must leave some numbers out and some in, not say “from {self.low} to {self.high}”; "
                "give it one finite bound, or two that rise"
            )

    @property
    def bounds(self) -> tuple[float, ...]:
        """The finite bounds, one or two."""
        return tuple(bound for bound in (self.low, self.high) if math.isfinite(bound))

    def verdict(self, low: float, high: float) -> Verdict:
        """The verdict of an interval of the statistic: all inside, all outside, or neither (as for nan).

        >>> str(above(2.0).verdict(2.5, 3.0)), str(above(2.0).verdict(-1.8, 1.5))
        ('supported', 'not supported')
        >>> str(within(1.0).verdict(-0.5, 0.7)), str(within(1.0).verdict(-0.5, 1.7))
        ('supported', 'inconclusive')
        """
        if self.low < low and high < self.high:
            return Verdict.SUPPORTED
        if high < self.low or low > self.high:
            return Verdict.NOT_SUPPORTED
        return Verdict.INCONCLUSIVE

    def times(self, factor: float) -> "Region":
        """The region of the same statistic in another unit: `factor`, which is positive, times as large.

        >>> str(within(0.25).times(100))
        'from -25 to 25'
        """
        return Region(factor * self.low, factor * self.high)

    def __str__(self) -> str:
        """In words, such as “above 0.25”.

        >>> str(below(0.005)), str(within(2.0))
        ('below 0.005', 'from -2 to 2')
        """
        if math.isinf(self.high):
            return f"above {in_brief(self.low)}"
        if math.isinf(self.low):
            return f"below {in_brief(self.high)}"
        return f"from {in_brief(self.low)} to {in_brief(self.high)}"


def above(bound: float) -> Region:
    """An effect of at least `bound`; with 0, only the sign matters."""
    return Region(bound, math.inf)


def below(bound: float) -> Region:
    """An effect of at most `bound`."""
    return Region(-math.inf, bound)


def within(bound: float) -> Region:
    """Equivalence: the effect is smaller than `bound` in either direction."""
    return Region(-bound, bound)


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: rejecting those of at most α has a family-wise error rate of at most α.

    The hypotheses may be dependent. This rejects everything that Bonferroni's correction does, and more.

    >>> holm_adjusted([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    from statsmodels.stats.multitest import multipletests  # takes a second, which only judging needs

    if not p_values:
        return []
    gc.freeze()  # it collects garbage at every call, which takes a tenth of a second where torch is loaded
    try:
        adjusted: list[float] = multipletests(p_values, method="holm")[1].tolist()
    finally:
        gc.unfreeze()
    return adjusted


def holm_levels(p_values: Sequence[float], level: float) -> list[float]:
    """The level at which the procedure tests each hypothesis individually, for an overall `level`.

    It is level / (k - r) for the r-th smallest p-value, counted from 0, up to the first that exceeds its own
    level; later ones are retained with it, at its level. Hence a hypothesis is rejected if and only if its
    p-value is at most the level given here, and an interval of confidence 1 - that level agrees with the
    procedure.

    >>> holm_levels([0.01, 0.04, 0.03], 0.06)
    [0.02, 0.06, 0.03]
    >>> holm_levels([0.01, 0.04, 0.035], 0.06)
    [0.02, 0.03, 0.03]
    """
    levels, tested_at, retained = [level] * len(p_values), level, False
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if not retained:
            tested_at = level / (len(p_values) - rank)
        levels[place] = tested_at
        retained = retained or p_values[place] > tested_at
    return levels
