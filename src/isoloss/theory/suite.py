"""All statements that are tested, in the order in which they are shown."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from isoloss.errors import BadInput, did_you_mean
from isoloss.progress import Progress
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
    theorem_3_3_coin,
    theorem_3_3_factors,
    theorem_3_3_transformer,
    theorem_5_1,
    theorem_g_6,
)
from isoloss.theory.finding import Statement


@dataclass(frozen=True)
class Entry:
    """A statement's name, the function of its settings that computes it, and its two sizes.

    Settings are a frozen dataclass of numbers and of tuples of numbers. `seconds` is the approximate time of
    the full size on one core, used only for the order of the work and the progress.
    """

    name: str
    compute: Callable[[Any, Progress], Statement]
    full: Any
    smoke: Any
    seconds: float


SUITE: tuple[Entry, ...] = (
    Entry("lemma-3.2", lemma_3_2.lemma_3_2, lemma_3_2.FULL, lemma_3_2.SMOKE, 30),
    Entry(
        "theorem-3.3-coin",
        theorem_3_3_coin.theorem_3_3_coin,
        theorem_3_3_coin.FULL,
        theorem_3_3_coin.SMOKE,
        20,
    ),
    Entry(
        "theorem-3.3-factors",
        theorem_3_3_factors.theorem_3_3_factors,
        theorem_3_3_factors.FULL,
        theorem_3_3_factors.SMOKE,
        60,
    ),
    Entry(
        "theorem-3.3-transformer",
        theorem_3_3_transformer.theorem_3_3_transformer,
        theorem_3_3_transformer.FULL,
        theorem_3_3_transformer.SMOKE,
        100,
    ),
    Entry("lemma-g.4", lemma_g_4.lemma_g_4, lemma_g_4.FULL, lemma_g_4.SMOKE, 25),
    Entry("lemma-g.1", lemma_g_1.lemma_g_1, lemma_g_1.FULL, lemma_g_1.SMOKE, 50),
    Entry("lemma-g.3", lemma_g_3.lemma_g_3, lemma_g_3.FULL, lemma_g_3.SMOKE, 5),
    Entry("theorem-g.6", theorem_g_6.theorem_g_6, theorem_g_6.FULL, theorem_g_6.SMOKE, 5),
    Entry(
        "flattest-solution",
        flattest_solution.flattest_solution,
        flattest_solution.FULL,
        flattest_solution.SMOKE,
        100,
    ),
    Entry("hidden-units", hidden_units.hidden_units, hidden_units.FULL, hidden_units.SMOKE, 2),
    Entry("theorem-5.1", theorem_5_1.theorem_5_1, theorem_5_1.FULL, theorem_5_1.SMOKE, 10),
    Entry(
        "downstream-error",
        downstream_error.downstream_error,
        downstream_error.FULL,
        downstream_error.SMOKE,
        10,
    ),
    Entry(
        "nested-minimisers",
        nested_minimisers.nested_minimisers,
        nested_minimisers.FULL,
        nested_minimisers.SMOKE,
        5,
    ),
    Entry("appendix-b.4", appendix_b_4.appendix_b_4, appendix_b_4.FULL, appendix_b_4.SMOKE, 10),
    Entry("adamw-coin", adamw_coin.adamw_coin, adamw_coin.FULL, adamw_coin.SMOKE, 40),
    Entry("adamw-factors", adamw_factors.adamw_factors, adamw_factors.FULL, adamw_factors.SMOKE, 60),
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
