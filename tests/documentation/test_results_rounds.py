"""What is told of results that were judged several times, each time on other seeds."""

from typing import Any

import numpy as np
import pytest

from isoloss.experiments.claims import CONFIDENCE
from isoloss.results.verdict import holm_adjusted, holm_levels


def result(seeds: list[int], p_values: list[float]) -> dict[str, Any]:
    claims = [
        {
            "name": str(place),
            "kind": "effect",
            "tested": True,
            "withdrawn": "",
            "p_value": p,
            "verdict": "supported" if p <= 1 - CONFIDENCE else "inconclusive",
        }
        for place, p in enumerate(holm_adjusted(p_values))
    ]
    return {"claims": claims, "checkpoints": [{"seed": seed} for seed in seeds]}


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_sharing_the_error_is_holms_procedure_at_the_share(rounds: int) -> None:
    from results_rounds import decided_at_shared_error

    generator = np.random.default_rng(rounds)
    share = (1 - CONFIDENCE) / rounds
    found = set()
    for _ in range(60):
        p_values = (10 ** generator.uniform(-4, 0, size=5)).tolist()
        kept = {"result": result([1], p_values), "earlier_seeds": [[number] for number in range(1, rounds)]}
        levels = holm_levels(p_values, share)
        decided = sum(p <= level for p, level in zip(p_values, levels, strict=True))
        assert decided_at_shared_error(kept, "effect") == decided
        found.add(decided)
    assert found == set(range(6))


def test_seeds_are_told_as_ranges() -> None:
    from results_rounds import ranges

    assert ranges([5, 1, 2, 3, 7, 8]) == "1 to 3, 5, 7 to 8"


def test_one_family_of_all_experiments_is_holms_procedure_over_all_of_them() -> None:
    """Exact where no adjusted p-value is another's, and never more than the procedure decides."""
    from results_rounds import decided_in_one_family

    generator = np.random.default_rng(5)
    exactly = 0
    for _ in range(40):
        families = [(10 ** generator.uniform(-6, 0, size=size)).tolist() for size in (1, 3, 6)]
        every = [p for family in families for p in family]
        levels = holm_levels(every, 1 - CONFIDENCE)
        decided = sum(p <= level for p, level in zip(every, levels, strict=True))
        found, effects = decided_in_one_family([{"result": result([], family)} for family in families])
        assert effects == len(every)
        assert found <= decided
        if all(len(set(holm_adjusted(family))) == len(family) for family in families):
            assert found == decided
            exactly += 1
    assert exactly > 10
