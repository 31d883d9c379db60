"""Runs compared at the same step: only there, only at one loss, and seed by seed."""

import math

import polars as pl
import pytest

from isoloss.experiments.statistics.same_loss import doublings, mean_at_same_loss
from isoloss.experiments.statistics.same_step import MeanAtSameStep

STEPS = [1000, 2000, 4000, 8000]


def run(rule: str, seed: int, traces: list[float], losses: list[float], steps: list[int] = STEPS):
    return pl.DataFrame(
        {
            "run": f"{rule}-{seed}",
            "rule": rule,
            "seed": seed,
            "step": steps,
            "trace": traces,
            "loss": losses,
            "kl_error": 1e-4,
            "loss_sentences": 100,
            "trace_error": 0.1,
            "trace_sentences": 100,
        }
    )


FALLING = [2.0, 1.5, 1.2, 1.0]
AT_STEP = MeanAtSameStep("Muon", "AdamW", "trace", doublings)


def test_it_is_the_mean_over_the_steps_of_the_last_doubling_and_over_seeds() -> None:
    flat = [1.0] * 4
    runs = [
        run("AdamW", 1, [99.0, 8.0, 8.0, 8.0], flat),
        run("Muon", 1, [1.0, 64.0, 16.0, 4.0], flat),
        run("AdamW", 2, [1.0, 1.0, 1.0, 1.0], flat),
        run("Muon", 2, [1.0, 1.0, 8.0, 8.0], flat),
        run("Muon", 3, [1.0, 1.0, 1.0, 1.0], flat),
    ]
    assert AT_STEP(runs) == pytest.approx((0.0 + 3.0) / 2)


def test_steps_at_other_losses_do_not_count() -> None:
    apart = [
        run("AdamW", 1, [1.0] * 4, [1.0] * 4),
        run("Muon", 1, [2.0, 2.0, 2.0, 4.0], [1.0, 1.0, 1.01, 1.004]),
    ]
    assert AT_STEP(apart) == 2.0
    assert MeanAtSameStep("Muon", "AdamW", "trace", doublings, window=None)(apart) == 1.5
    assert math.isnan(AT_STEP([apart[0], run("Muon", 1, [2.0] * 4, [1.1] * 4)]))


def test_what_steps_alone_do_shows_at_one_loss_and_not_at_one_step() -> None:
    """Traces that depend on steps alone, of a rule that is twice as fast: equal at a step, not at a loss."""
    trace = [64.0, 32.0, 16.0, 8.0]
    faster = run("Muon", 1, trace, [1.5, 1.2, 1.0, 0.999])
    runs = [run("AdamW", 1, trace, [2.0, 1.5, 1.2, 1.0]), faster]
    assert AT_STEP(runs) == 0
    assert mean_at_same_loss("Muon", "AdamW", "trace", doublings)(runs) == pytest.approx(1.0, abs=0.05)
