"""Which parts of a model to store with how many bits, at a given mean, so that the predicted KL is least."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from isoloss.errors import BadInput


@dataclass(frozen=True)
class BitAllocation:
    """The bits of each part, their mean over all numbers, and the sum of the parts' predicted KL in nats."""

    bits: Mapping[str, int]
    mean_bits: float
    predicted: float


def allocate_bits(
    costs: Mapping[str, Mapping[int, float]], sizes: Mapping[str, int], mean_bits: float
) -> BitAllocation:
    """The choice of one number of bits for each part with the least sum of costs, exactly.

    `costs` has each part's predicted KL for each number of bits it may get, `sizes` how many numbers it
    stores; the mean of the bits over all numbers may be at most `mean_bits`. This is the multiple-choice
    knapsack problem, solved by dynamic programming over the parts: of all choices for the first k parts, only
    those are kept that no other one beats in both size and cost. Raises BadInput if no choice is small
    enough.

    >>> costs = {"first": {4: 1.0, 8: 0.0}, "second": {4: 3.0, 8: 0.5}}
    >>> allocate_bits(costs, {"first": 100, "second": 100}, mean_bits=6.5)
    BitAllocation(bits={'first': 4, 'second': 8}, mean_bits=6.0, predicted=1.5)
    """
    numbers = sum(sizes[part] for part in costs)
    fewest = sum(sizes[part] * min(choices) for part, choices in costs.items())
    if fewest > mean_bits * numbers:
        raise BadInput(
            f"a mean of {mean_bits:g} bits is below the {fewest / numbers:.3g} of the fewest bits of all"
        )
    weights, values = np.zeros(1, dtype=np.int64), np.zeros(1)
    chosen: list[tuple[list[int], np.ndarray, np.ndarray]] = []
    for part, choices in costs.items():
        options = sorted(choices)
        grown = weights[:, None] + sizes[part] * np.array(options)
        dearer = values[:, None] + np.array([choices[bits] for bits in options])
        # Lightest first, and of the equally light the cheapest; a dearer one after it is beaten.
        order = np.lexsort((dearer.ravel(), grown.ravel()))
        cheapest = np.minimum.accumulate(dearer.ravel()[order])
        kept = order[np.r_[True, dearer.ravel()[order][1:] < cheapest[:-1]]]
        kept = kept[grown.ravel()[kept] <= mean_bits * numbers]
        chosen.append((options, kept // len(options), kept % len(options)))
        weights, values = grown.ravel()[kept], dearer.ravel()[kept]
    last = len(values) - 1  # the cheapest is the heaviest
    bits: dict[str, int] = {}
    at = last
    for part, (options, before, choice) in zip(reversed(list(costs)), reversed(chosen), strict=True):
        bits[part] = options[choice[at]]
        at = before[at]
    in_order = {part: bits[part] for part in costs}
    return BitAllocation(in_order, float(weights[last]) / numbers, float(values[last]))
