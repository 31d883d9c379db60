"""All statements that are tested, in the order in which they are shown."""

from isoloss.errors import BadInput, did_you_mean
from isoloss.theory import (
    adamw_coin,
    adamw_factors,
    appendix_b_4,
    downstream_error,
    flattest_solution,
    hidden_units,
    lemma_3_2,
    lemma_g_1,
    lemma_g_3,
    lemma_g_4,
    nested_minimisers,
    theorem_3_3,
    theorem_3_3_coin,
    theorem_5_1,
    theorem_g_6,
)
from isoloss.theory.finding import Entry

SUITE: tuple[Entry, ...] = (
    lemma_3_2.ENTRY,
    theorem_3_3_coin.ENTRY,
    theorem_3_3.FACTORS,
    theorem_3_3.TRANSFORMER,
    lemma_g_4.ENTRY,
    lemma_g_1.ENTRY,
    lemma_g_3.ENTRY,
    theorem_g_6.ENTRY,
    flattest_solution.ENTRY,
    hidden_units.ENTRY,
    theorem_5_1.ENTRY,
    downstream_error.ENTRY,
    nested_minimisers.ENTRY,
    appendix_b_4.ENTRY,
    adamw_coin.ENTRY,
    adamw_factors.ENTRY,
)


def named(name: str) -> tuple[Entry, ...]:
    """The entry of this name, or all parts of it. Raises BadInput if there is none.

    >>> [entry.name for entry in named("theorem-3.3")]
    ['theorem-3.3-coin', 'theorem-3.3-factors', 'theorem-3.3-transformer']
    """
    found = tuple(entry for entry in SUITE if entry.name == name or entry.name.startswith(f"{name}-"))
    if not found:
        known = [entry.name for entry in SUITE]
        near = did_you_mean(name, known) or f"; choose among {', '.join(known)}"
        raise BadInput(f"no statement is called {name!r}{near}")
    return found
