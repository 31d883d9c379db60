"""Verdicts on sets of seeds: what holds on every seed stands, what turns with them does not."""

from collections import Counter
from dataclasses import replace

import polars as pl
import pytest

from isoloss.experiments.claims import Claim
from isoloss.experiments.suite import same_verdict
from isoloss.experiments.suite.same_verdict import OnSetsOfSeeds, sets_of_seeds, verdicts_on_sets
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


def test_a_tables_verdicts_are_counted_once_for_its_sentences_and_its_panel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = []

    def counting(*given: object) -> dict[str, Counter[Verdict]]:
        counted.append(given)
        return {"steady": Counter({Verdict.SUPPORTED: 2})}

    monkeypatch.setattr(same_verdict, "verdicts_on_sets", counting)
    judged = {"run": ["a", "b"], "seed": [1, 2], "complete": [True, True], "saturated": [True, True]}
    table, sets = pl.DataFrame(judged), OnSetsOfSeeds((claim("steady", "steady"),), size=1)
    (panel,) = sets.panels(table)
    assert sets.findings(table)[0] == panel.caption
    assert len(counted) == 1
    assert len(counted[0][2]) == 10 * 2  # ten orders, unless told otherwise
    replace(sets, orders=3).panels(table)
    assert len(counted[1][2]) == 3 * 2
