import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

from isoloss.experiments.statistics.along_runs import (
    Among,
    FromStep,
    LastDoubling,
    MeanWithinRuns,
    Slope,
    Spread,
    divergence_over_entropy,
    in_doublings,
    in_halvings,
    in_points,
    mean_gain,
    range_in_doublings,
    theil_sen_slope,
)
from isoloss.experiments.statistics.rank_correlation import Advantage, Ranking

STEPS = [1, 2, 4, 8]


def frame(**columns: object) -> pl.DataFrame:
    return pl.DataFrame(columns)


@pytest.mark.parametrize("seed", range(5))
def test_the_slope_is_that_of_a_peer(seed: int) -> None:
    x, y = np.random.default_rng(seed).normal(size=(2, 9))
    x[3] = x[4]
    assert theil_sen_slope(x, y) == pytest.approx(stats.theilslopes(y, x).slope)


def test_one_checkpoint_that_is_off_decides_no_slope() -> None:
    run = frame(step=STEPS, trace=[80.0, 40.0, 20.0, 10.0], accuracy=[0.5, 0.6, 0.7, 0.8])
    last_is_off = run.with_columns(trace=pl.Series([80.0, 40.0, 20.0, 90.0]))
    flattening = Slope(in_doublings("trace"))
    assert flattening([run]) == pytest.approx(-1.0)
    assert flattening([last_is_off]) > -1.0
    assert Slope(in_points("accuracy"))([run]) == pytest.approx(10.0)
    assert Slope(in_points("accuracy"), over=in_halvings("trace"))([run]) == pytest.approx(10.0)
    assert math.isnan(flattening([run.head(1)]))


def test_runs_are_never_ranked_together() -> None:
    """Between the runs, accuracy falls with flatness; within each it rises with it, and not with the loss."""
    runs = [
        frame(trace=[9.0, 8.0, 7.0], loss=[3.0, 2.0, 2.5], accuracy=[0.8, 0.85, 0.9]),
        frame(trace=[4.0, 3.0, 2.0], loss=[3.0, 2.5, 2.0], accuracy=[0.1, 0.3, 0.2]),
    ]
    assert MeanWithinRuns(Ranking("trace"))(runs) == pytest.approx((1.0 + 0.5) / 2)
    advantage = MeanWithinRuns(Advantage(Ranking("trace"), Ranking("loss")))
    assert advantage(runs) == pytest.approx((0.5 + 0.0) / 2)
    constant = frame(trace=[2.0, 1.0], accuracy=[0.5, 0.5])
    assert math.isnan(MeanWithinRuns(Ranking("trace"))([*runs, constant]))
    assert math.isnan(MeanWithinRuns(Ranking("trace"))([]))


def test_the_range_is_that_within_each_run() -> None:
    runs = [frame(loss=[2.1, 2.0, 1.9]), frame(loss=[3.0, 3.0, 3.0])]
    assert MeanWithinRuns(Spread("loss"))(runs) == pytest.approx(0.05)
    single = [runs[0][-1:]]
    assert all(math.isnan(within(single)) for within in (Spread("loss"), Spread("loss", range_in_doublings)))


def test_a_gain_is_that_of_the_last_checkpoint_with_both_columns() -> None:
    run = frame(after=[0.1, 0.6, 0.7], before=[None, None, 0.5])
    found = mean_gain("after", over="before")
    assert found([run, frame(after=[0.9], before=[0.8])]) == pytest.approx(15.0)
    assert math.isnan(found([]))
    assert math.isnan(found([run.head(2)]))
    at_two_steps = frame(after=[0.1, 0.6, None], before=[0.2, 0.5, 0.3])
    assert found([at_two_steps]) == pytest.approx(10.0)


def test_what_is_not_learnt_is_a_share_of_the_entropy() -> None:
    assert divergence_over_entropy([frame(loss=[9.0, 1.01], kl=[8.0, 0.01])]) == pytest.approx(0.01)


def test_the_last_doubling_begins_between_two_checkpoints() -> None:
    run = frame(step=[1, 3, 12], kl=[0.5, 0.3, 0.1], loss=[1.5, 1.3, 1.1])
    assert LastDoubling("kl", "loss")([run]) == pytest.approx(0.1 / 1.1)  # step 6 is half way from 3 to 12
    assert LastDoubling("kl")([run]) == pytest.approx(0.5)
    assert math.isnan(LastDoubling("kl")([run.tail(1)]))
    assert math.isnan(LastDoubling("kl")([run.tail(2).with_columns(step=pl.Series([8, 10]))]))


def test_parts_of_the_runs() -> None:
    runs = [
        frame(step=STEPS, rule=["a"] * 4, trace=[16.0, 8.0, 4.0, 1.0]),
        frame(step=[1], rule=["b"], trace=[1.0]),
    ]
    slope = Slope(in_doublings("trace"))
    assert Among("rule", "a", slope)(runs) == slope(runs[:1])
    assert math.isnan(Among("rule", "c", slope)(runs))
    assert math.isnan(Among("rule", "c", slope)([]))
    with pytest.raises(KeyError, match="ruel"):  # told as a misspelt name, before anything is run
        Among("ruel", "a", slope)(runs)
    assert FromStep(4, slope)(runs[:1]) == -2.0
