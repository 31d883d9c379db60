"""Slopes within groups, of numbers for which they are known."""

import polars as pl
import pytest

from isoloss.panels import Axis
from isoloss.report.over_runs import fitted_slope


def test_the_slope_shown_is_that_of_claims_in_which_seeds_count_by_the_spread_of_their_x() -> None:
    rows = [
        {"run": str(seed), "seed": seed, "x": spread * x, "y": slope * spread * x}
        for seed, slope, spread in ((1, 1.0, 3.0), (2, 2.0, 1.0))
        for x in (-1.0, 1.0)
    ]
    found = fitted_slope(pl.DataFrame(rows), "run", Axis("x", "x"), Axis("y", "y"))
    assert found is not None
    assert found[0].value == pytest.approx((9 * 1.0 + 1 * 2.0) / 10)
