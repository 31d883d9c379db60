"""Which beginnings of a sentence are constituents of the derivation that it was drawn by."""

import numpy as np
from numpy.typing import NDArray

from isoloss.languages.sampling import Derivations


def leftmost_constituents(derivations: Derivations, maximum: int) -> NDArray[np.bool_]:
    """Draw `derivations`; entry [i, L] tells whether words 1..L of sentence i are one symbol's, L > 1.

    A symbol that starts the sentence is known by how many items wait behind it; it is complete when,
    for the first time since, nothing goes on and no more than those wait.
    """
    n = len(derivations.keys)
    complete = np.zeros((n, maximum + 1), bool)
    started = np.zeros((n, maximum + 2), bool)
    started[:, 1] = True
    change, following = derivations.tables.waiting_change, derivations.tables.next_item
    for step in derivations:
        complete[step.rows[step.restarted]] = False
        started[step.rows[step.restarted]] = False
        started[step.rows[step.restarted], 1] = True
        going = np.ones(len(step.rows), bool)
        going[step.restarted] = False
        before = step.waiting - change[step.rules]
        begins = np.flatnonzero(going & (step.words == 0))
        started[step.rows[begins], step.waiting[begins]] = True
        ends = np.flatnonzero(going & (following[step.rules] < 0))
        ends = ends[started[step.rows[ends], before[ends]]]
        complete[step.rows[ends], step.words[ends]] = True
        started[step.rows[ends], before[ends]] = False
    return complete
