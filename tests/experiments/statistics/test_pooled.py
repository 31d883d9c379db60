"""The paper's window: which checkpoints of a seed are pooled."""

import math

import polars as pl
import pytest

from isoloss.experiments.statistics.pooled import PooledInWindow
from isoloss.experiments.statistics.rank_correlation import Advantage, Ranking
from isoloss.experiments.statistics.same_loss import PAPER_WINDOW

TRACE_OVER_LOSS = PooledInWindow(Advantage(Ranking("trace"), Ranking("loss")), PAPER_WINDOW)


def run(seed: int, losses: list[float], traces: list[float], accuracies: list[float]) -> pl.DataFrame:
    return pl.DataFrame({"seed": seed, "loss": losses, "trace": traces, "accuracy": accuracies})


def test_sizes_are_pooled_and_what_is_beyond_the_window_is_not() -> None:
    near = run(1, [3.2040, 3.2060], [9.0, 7.0], [0.4, 0.5])
    other = run(1, [3.2050, 3.2042], [8.0, 6.0], [0.45, 0.6])
    far = run(1, [3.3], [1.0], [0.1])
    # Traces rank the four perfectly; losses 3.2040, 3.2060, 3.2050, 3.2042 against 0.4, 0.5, 0.45, 0.6.
    assert TRACE_OVER_LOSS([near, other, far]) == pytest.approx(1 - (-0.4))


def test_seeds_are_means_and_those_with_too_few_are_left_out() -> None:
    good = run(1, [1.0] * 3 + [1.0001], [4.0, 3.0, 2.0, 1.0], [0.1, 0.2, 0.3, 0.4])
    few = run(2, [1.0, 1.0, 1.1, 1.2], [1.0, 2.0, 3.0, 4.0], [0.1, 0.2, 0.3, 0.4])
    assert TRACE_OVER_LOSS([good, few]) == TRACE_OVER_LOSS([good])
    assert math.isnan(TRACE_OVER_LOSS([few]))
