"""Verdicts on sets of seeds: what holds on every seed stands, what turns with them does not."""

import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.suite.same_verdict import sets_of_seeds, verdicts_on_sets
from isoloss.results.verdict import Verdict, above


def claim(name: str, column: str, withdrawn: str = "") -> Claim:
    def mean(runs: list[pl.DataFrame]) -> float:
        return float(pl.concat(runs)[column].mean())  # type: ignore[arg-type]

    return Claim(name, "It is large.", "", "mean", "", above(0.0), mean, withdrawn=withdrawn)


def test_sets_of_one_order_share_no_seed_and_are_of_one_size() -> None:
    seeds = tuple(range(761, 784))
    sets = sets_of_seeds(seeds, size=5, orders=3)
    assert len(sets) == 12
    assert {len(each) for each in sets} == {5}
    for first in range(0, 12, 4):
        assert len(frozenset.union(*sets[first : first + 4])) == 20
    assert frozenset.union(*sets) <= set(seeds)


def test_a_verdict_that_turns_with_the_seeds_is_counted_as_often_as_it_comes() -> None:
    """Even seeds are all large, odd ones all small: sets of either get one verdict each."""
    frames = [
        pl.DataFrame(
            {"seed": [seed], "steady": [1 + seed / 1000], "split": [(1 - seed % 2 * 2) + seed / 1000]}
        )
        for seed in range(10)
    ]
    even, odd = frozenset(range(0, 10, 2)), frozenset(range(1, 10, 2))
    claims = (claim("steady", "steady"), claim("split", "split"), claim("gone", "steady", "no test"))
    counts = verdicts_on_sets(claims, frames, (even, odd, odd))
    assert counts["steady"] == {Verdict.SUPPORTED: 3}
    assert counts["split"] == {Verdict.SUPPORTED: 1, Verdict.NOT_SUPPORTED: 2}
    assert "gone" not in counts
