import math

import numpy as np
import polars as pl
import pytest

from isoloss.experiments.statistics.across_models import (
    DoublingsApart,
    GapBetweenWidths,
    OfNarrowest,
    PerDoubling,
    SlopeOverSizes,
    gap_between_typical_losses,
    last_doubling_of_width,
    mean_by_width,
    relative_fall_with_width,
    saturated_width,
    slope_within,
)
from isoloss.experiments.statistics.along_runs import (
    MeanOverSeeds,
    in_doublings,
    in_points,
    range_in_doublings,
)
from isoloss.experiments.statistics.seed_bootstrap import Frames

GAINS = ((16, 0.1), (32, 0.009), (48, 0.0), (64, 0.001))


def run_of(width: int, seed: int, losses: list[float], traces: list[float]) -> pl.DataFrame:
    n = len(losses)
    errors = {"kl_error": 0.001, "trace_error": 0.1, "loss_sentences": 50, "trace_sentences": 50}
    columns = {"run": f"{width}-{seed}", "width": width, "seed": seed, **errors}
    columns |= {"parameters": 3 * width, "trace_before": float(width)}
    frame = pl.DataFrame({"step": [2**place for place in range(n)], "loss": losses, "trace": traces})
    return frame.with_columns(*(pl.lit(value).alias(name) for name, value in columns.items()))


def test_sizes_are_compared_where_each_has_the_seeds_common_loss() -> None:
    small = run_of(32, 1, [2.4, 2.2, 2.0], [80.0, 40.0, 32.0])
    # At a loss of 2.0 the larger one is between its first two checkpoints, at a trace of 16.
    large = run_of(64, 1, [2.2, 1.8, 1.7], [24.0, 8.0, 1.0])
    slope = MeanOverSeeds(SlopeOverSizes(in_doublings("trace")))
    assert slope([large, small]) == pytest.approx(-1.0)
    wider = run_of(256, 1, [2.2, 1.8, 1.7], [6.0, 2.0, 1.0])
    assert slope([small, wider]) == pytest.approx(-1.0)
    assert SlopeOverSizes(in_doublings("trace"), less="trace_before")([large, small]) == pytest.approx(-2.0)
    alike = small.with_columns(width=pl.lit(64), parameters=pl.lit(192))
    second = [run.with_columns(seed=pl.lit(2)) for run in (small, alike)]
    assert slope([small, large, *second]) == pytest.approx(-0.5)


def test_without_a_common_loss_or_a_second_size_there_is_nothing_to_compare() -> None:
    small = run_of(32, 1, [2.4, 2.2], [1.0, 1.0])
    slope = SlopeOverSizes(in_doublings("trace"))
    assert math.isnan(slope([small]))
    assert math.isnan(slope([small, run_of(64, 1, [2.0, 1.8], [1.0, 1.0])]))
    at_the_end = SlopeOverSizes(in_doublings("trace"), at_one_step=True)
    assert at_the_end([small, run_of(64, 1, [2.0, 1.8], [1.0, 0.5])]) == pytest.approx(-1.0)
    assert math.isnan(at_the_end([small]))


def test_kl_of_the_widths_is_compared_in_doublings_and_shares() -> None:
    runs = [run_of(width, 1, [2.0], [1.0]) for width in (16, 32, 64)]
    runs = [run.with_columns(kl=pl.lit(kl)) for run, kl in zip(runs, (0.016, 0.004, 0.003), strict=True)]
    assert GapBetweenWidths("kl", range_in_doublings)(runs) == pytest.approx(math.log2(16 / 3))
    assert relative_fall_with_width(runs) == pytest.approx(0.25)
    assert math.isnan(relative_fall_with_width(runs[:1]))
    wider = runs[2].with_columns(width=pl.lit(128))  # two doublings for the same fall
    assert relative_fall_with_width([*runs[:2], wider]) == pytest.approx(1 - 0.75**0.5)


def test_means_are_those_of_the_last_checkpoints() -> None:
    runs = [run_of(32, 1, [9.0, 2.0], [1.0, 1.0]), run_of(32, 2, [9.0, 2.2], [1.0, 1.0])]
    runs += [run_of(48, 1, [9.0, 1.9], [1.0, 1.0]), run_of(64, 1, [9.0, 2.0], [1.0, 1.0])]
    assert mean_by_width(runs, "loss") == pytest.approx({32: 2.1, 48: 1.9, 64: 2.0})
    assert GapBetweenWidths("loss")(runs) == pytest.approx((2.1 - 1.9) / 2.0)
    # A resample in which a seed comes twice counts it twice.
    assert mean_by_width([runs[0], *runs[:2]], "loss")[32] == pytest.approx((2.0 + 2.0 + 2.2) / 3)
    assert math.isnan(GapBetweenWidths("loss")(runs[:2]))
    assert saturated_width(runs) is None  # the widest is 5 % above 48
    assert saturated_width(runs[:3]) == 48
    assert saturated_width([run_of(width, 1, [2.0 + loss], [1.0]) for width, loss in GAINS]) == 32
    assert OfNarrowest(len)(runs) == 2


def test_one_run_that_ends_far_above_the_others_hardly_moves_a_typical_loss() -> None:
    ends = {(32, 1): 0.004, (32, 2): 0.004, (32, 3): 0.0625, (48, 1): 0.004, (48, 2): 0.004, (48, 3): 0.004}
    runs = [
        run_of(width, seed, [1.4], [1.0]).with_columns(kl=pl.lit(kl)) for (width, seed), kl in ends.items()
    ]
    typical = (0.004**2 * 0.0625) ** (1 / 3)
    assert gap_between_typical_losses(runs) == pytest.approx((typical - 0.004) / 1.4)
    assert math.isnan(gap_between_typical_losses(runs[:3]))


def test_the_last_widths_tell_whether_larger_ones_would_gain() -> None:
    runs = [
        run_of(width, 1, [2.0], [1.0]).with_columns(kl=pl.lit(kl))
        for width, kl in ((16, 1.0), (32, 0.3), (128, 0.1))
    ]
    assert last_doubling_of_width(runs) == pytest.approx(0.2 / 2.0 / 2)
    assert math.isnan(last_doubling_of_width(runs[:1]))


def rows(runs: Frames, *columns: str) -> pl.DataFrame:
    having = [run for run in runs if {*columns} <= {*run.columns}]
    return pl.concat(having) if having else pl.DataFrame()


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
