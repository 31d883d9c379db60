import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

from isoloss.experiments.statistics.along_runs import in_doublings, in_points
from isoloss.experiments.statistics.seed_bootstrap import Frames
from isoloss.experiments.statistics.within_groups import DoublingsApart, PerDoubling, slope_within


def rows(runs: Frames, *columns: str) -> pl.DataFrame:
    having = [run for run in runs if {*columns} <= {*run.columns}]
    return pl.concat(having) if having else pl.DataFrame()


@pytest.mark.parametrize("seed", range(5))
def test_the_slope_is_that_of_a_peer(seed: int) -> None:
    x, y = np.random.default_rng(seed).normal(size=(2, 9))
    x[3] = x[4]
    assert slope_within(np.full(9, seed), x, y) == pytest.approx(stats.linregress(x, y).slope)


def test_an_intercept_for_every_group_is_one_more_column_of_the_regression() -> None:
    random = np.random.default_rng(3)
    group = np.array(["a", "c", "b", "a", "b", "c", "a", "d"])
    x, y = random.normal(size=(2, 8))
    design = np.column_stack([x, *(group == name for name in "abcd")])
    expected = np.linalg.lstsq(design, y, rcond=None)[0][0]
    assert slope_within(group, x, y) == pytest.approx(expected)
    assert math.isnan(slope_within(np.arange(8), x, y))


def test_a_change_is_on_its_columns_scale() -> None:
    runs = [
        pl.DataFrame({"seed": seed, "trace": 4.0**x, "share": 0.1 * seed - 0.04 * x, "kl": [4.0**x]})
        for seed in (1, 2)
        for x in (seed, seed + 1)
    ]
    assert PerDoubling(in_points("share"), rows)(runs) == pytest.approx(-2.0)
    assert PerDoubling(in_doublings("kl"), rows)(runs) == pytest.approx(1.0)
    assert math.isnan(PerDoubling(in_points("other"), rows)(runs))


def test_a_group_of_one_says_nothing_of_a_distance() -> None:
    apart = DoublingsApart("trace", rows, within="start")
    alone = pl.DataFrame({"start": [3], "trace": [9.0]})
    several = pl.DataFrame({"start": [1, 1, 1, 2, 2], "trace": [4.0, 1.0, 2.0, 3.0, 6.0]})
    assert apart([several, alone]) == apart([several]) == pytest.approx(1.5)
    assert math.isnan(apart([alone]))
    assert math.isnan(apart([]))
