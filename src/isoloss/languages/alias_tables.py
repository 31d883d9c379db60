"""Sampling from many distributions at once, each in constant time, by Walker's alias method."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Bits = NDArray[np.uint64]

CHANCE_BITS = 40
"""A table's column is chosen by a number's high bits, and one of its two outcomes by the low 40."""


@dataclass(frozen=True)
class AliasTables:
    """For each item a table of 2^k columns of two outcomes each (Walker 1977)."""

    first_column: Numbers
    shift: Bits
    threshold: Bits
    outcome: Numbers

    def draw(self, items: Numbers, bits: Bits) -> Numbers:
        """One outcome for each item, from 64 random bits each."""
        column = (bits >> self.shift[items]).view(np.int64)
        column += self.first_column[items]
        above = (bits & np.uint64((1 << CHANCE_BITS) - 1)) >= self.threshold[column]
        column *= 2
        column += above
        return self.outcome[column]


def alias_tables(choices: list[list[int]], weights: NDArray[np.float64]) -> AliasTables:
    """One table per list of outcomes, which are drawn in proportion to their weights, exact to 2^-40.

    Of a table's 2^k >= 2 columns, each with too little weight is filled up from one with too much.

    >>> tables = alias_tables([[0, 1], [2, 3]], np.array([1.0, 0.0, 0.25, 0.75]))
    >>> tables.draw(np.array([0, 1, 1]), np.array([2**63, 2**20, 2**63], np.uint64)).tolist()
    [0, 2, 3]
    """
    first, shift, thresholds, outcomes = [], [], [], []
    columns = 0
    for outcome in choices:
        bits = max(1, (len(outcome) - 1).bit_length())
        share, own, other = _alias_table(weights[outcome], 1 << bits)
        first.append(columns)
        shift.append(64 - bits)
        numbers = np.array([*outcome, *[outcome[0]] * ((1 << bits) - len(outcome))])
        thresholds.append(np.round(share * 2.0**CHANCE_BITS).astype(np.uint64))
        outcomes.append(np.stack([numbers[own], numbers[other]], 1).reshape(-1))
        columns += 1 << bits
    return AliasTables(
        np.array(first), np.array(shift, np.uint64), np.concatenate(thresholds), np.concatenate(outcomes)
    )


def _alias_table(
    weights: NDArray[np.float64], columns: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """For each column the share of its own outcome, that outcome, and the other one (Vose 1991)."""
    total = weights.sum()
    share = np.zeros(columns)
    share[: len(weights)] = weights * (columns / total) if total > 0 else columns / len(weights)
    other = np.arange(columns)
    small = [column for column in range(columns) if share[column] < 1]
    large = [column for column in range(columns) if share[column] >= 1]
    while small and large:
        poor, rich = small.pop(), large[-1]
        other[poor] = rich
        share[rich] -= 1 - share[poor]
        if share[rich] < 1:
            small.append(large.pop())
    for column in [*small, *large]:
        # Only rounding leaves these: a column without any weight must still never be drawn.
        if column < len(weights) and weights[column] > 0:
            share[column] = 1
    return share, np.arange(columns), other
