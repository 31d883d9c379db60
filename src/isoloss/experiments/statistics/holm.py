"""Several hypotheses tested together: Holm's step-down procedure (Holm 1979)."""

from collections.abc import Sequence


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values: rejecting those of at most α is wrong about any with probability α at most.

    The r-th smallest of k, from 0, times k - r; at least the adjusted one before it, at most 1. Hypotheses
    may depend on one another. All that Bonferroni's correction rejects is rejected, and more.

    >>> holm_adjusted([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, largest = [1.0] * len(p_values), 0.0
    for rank, place in enumerate(_ascending(p_values)):
        largest = max(largest, (len(p_values) - rank) * p_values[place])
        adjusted[place] = min(1.0, largest)
    return adjusted


def holm_levels(p_values: Sequence[float], level: float) -> list[float]:
    """The level at which the procedure tests each hypothesis by itself, all together at `level`.

    level / (k - r) for the r-th smallest p-value, from 0, up to the first that is above its own; those after
    it are retained with it, and have its level. So a hypothesis is rejected if and only if its p-value is at
    most the level given here, and an interval of confidence 1 - that level says what the procedure does.

    >>> holm_levels([0.01, 0.04, 0.03], 0.06)
    [0.02, 0.06, 0.03]
    >>> holm_levels([0.01, 0.04, 0.035], 0.06)
    [0.02, 0.03, 0.03]
    """
    levels, own, retained = [level] * len(p_values), level, False
    for rank, place in enumerate(_ascending(p_values)):
        if not retained:
            own = level / (len(p_values) - rank)
        levels[place] = own
        retained = retained or p_values[place] > own
    return levels


def _ascending(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=lambda place: p_values[place])
