"""What claims' statistics would be in made-up worlds: which of the registered ones cannot decide anything."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from isoloss.experiments.claims import Claim
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.ranges import Range, World, claim_ranges
from isoloss.experiments.scale import scale_named
from isoloss.experiments.suite import builtin_designs
from isoloss.results.verdict import Region, above, below

WITHDRAWN = {
    "trace-ranks-better",
    "trace-ranks-better-with-skewed-roots",
    "trace-ranks-better-with-uniform-rules",
    "roots-rank-better-than-trace",
}
"""Registered before this was computed, at bounds that no world reaches. No other claim may join them."""


@pytest.mark.parametrize("name", builtin_designs())
def test_claims_can_be_fulfilled_and_can_fail(name: str) -> None:
    experiment = builtin_designs()[name].at(scale_named("laptop"))
    faults = {claim for claim, found in claim_ranges(experiment, replicates=16).items() if found.fault}
    assert faults == {claim.name for claim in experiment.claims if claim.withdrawn}
    assert faults <= WITHDRAWN


def small(statistic: object, claimed: Region) -> Experiment:
    """Figure 1's runs on the smoke scale with one claim."""
    planned = builtin_designs()["figure-1"].plan(scale_named("smoke"))
    claim = Claim("asked", "It is so.", "", "a statistic", "", claimed, statistic)  # type: ignore[arg-type]
    own = tuple(run for run in planned.runs if "drift" not in dict(run.labels))
    return replace(planned, runs=own, claims=(claim,))


def mean_of(column: str):
    def statistic(runs: list[pl.DataFrame]) -> float:
        return float(np.mean([run[column].mean() for run in runs]))

    return statistic


def spearman(runs: list[pl.DataFrame], column: str) -> float:
    from scipy.stats import spearmanr

    rows = pl.concat([run.select("accuracy", column) for run in runs])
    return float(spearmanr(rows["accuracy"], rows[column]).statistic)


def test_accuracy_is_exactly_what_its_world_says() -> None:
    for column, world in (("trace", World.FLATNESS), ("kl", World.KNOWLEDGE)):
        experiment = small(lambda runs, column=column: spearman(runs, column), below(0.0))
        found = claim_ranges(experiment, replicates=5)["asked"]
        assert found.mean(world) == pytest.approx(-1.0, abs=1e-12)
        assert abs(found.mean(World.NEITHER)) < 0.9


def test_statistics_without_accuracy_are_left_out() -> None:
    assert claim_ranges(small(mean_of("trace"), above(0.0)), replicates=3) == {}


def test_a_bound_that_all_or_none_reach_is_named() -> None:
    for claimed, fault in ((above(2.0), "cannot be above 2"), (above(0.0), "can only be above 0")):
        found = claim_ranges(small(mean_of("accuracy"), claimed), replicates=5)["asked"]
        assert found.fault == f"whatever accuracy follows, it {fault}"
    assert claim_ranges(small(mean_of("accuracy"), above(0.8)), replicates=16)["asked"].fault == ""


def test_a_statistic_that_is_undefined_counts_as_not_claimed() -> None:
    values = dict.fromkeys(World, (math.nan, 1.0))
    found = Range(above(0.0), values)
    assert found.mean(World.NEITHER) == 1.0
    assert found.share_claimed(World.NEITHER) == 0.5
    assert math.isnan(Range(above(0.0), dict.fromkeys(World, (math.nan,))).mean(World.NEITHER))
