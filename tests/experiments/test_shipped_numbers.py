"""The numbers of the shipped claims are what their statistics give on the shipped rows."""

import math

import polars as pl
import pytest

from isoloss.experiments.experiment_result import judged_runs
from isoloss.experiments.shared.language_runs import ScaleName
from isoloss.experiments.shipped_results import shipped_results
from planned_suite import planned_suite


@pytest.mark.parametrize("scale", ["laptop", pytest.param("night", marks=pytest.mark.thorough)])
def test_a_change_of_a_statistic_changes_what_is_shipped(scale: ScaleName) -> None:
    """Else someone with the same runs is told other numbers than the documentation has."""
    compared = 0
    claims = {each.name: each.claims for each in planned_suite(scale)}
    for name, shipped in shipped_results(scale).items():
        result = shipped["result"]
        registered = {claim.name: claim for claim in claims[name]}
        told = {each["name"]: each["effect"] for each in result["claims"] if each["name"] in registered}
        references = [each | {"step": None, "seed": None} for each in result["references"]]
        runs = judged_runs(pl.DataFrame([*result["checkpoints"], *references], infer_schema_length=None))
        for claim, effect in told.items():
            found = registered[claim].statistic(runs)
            if effect is None:
                assert not math.isfinite(found), (name, claim)
            else:
                assert found == pytest.approx(effect, rel=1e-9, abs=1e-12), (name, claim)
                compared += 1
    assert compared > 150
