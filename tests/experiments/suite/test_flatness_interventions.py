"""The claims about what flatness causes, on ways whose accuracy follows the trace or does not."""

import math

import polars as pl
import pytest

from isoloss.experiments.statistics.across_models import PerDoubling
from isoloss.experiments.statistics.along_runs import in_points
from isoloss.experiments.suite.flatness_interventions import (
    AT,
    CLAIMS,
    continuations,
    doublings_apart,
    intervention_panels,
    range_of_losses,
)

POINTS_PER_DOUBLING = PerDoubling(in_points("accuracy"), continuations)
WAYS = {"SGD with noise": 6.0, "SGD without noise": 12.0, "flattened": 6.0, "sharpened": 24.0}


def runs(points: float) -> list[pl.DataFrame]:
    """Every start has its own accuracy; among its ways, doubling the trace changes it by `points`."""
    frames = []
    for seed in (1, 2, 3):
        place = {"language": "grammar", "width": 32, "seed": seed, "loss": 1.4, "saturated": True}
        start = {"run": f"start-{seed}", "drift": "start", "pace": "start", "trace": 12.0 * seed}
        frames.append(pl.DataFrame([{**place, **start, "accuracy": 0.1}]))
        for name, trace in WAYS.items():
            accuracy = 0.8 + seed / 100 + points / 100 * math.log2(trace * seed)
            probes = dict.fromkeys(("accuracy", "standardised_accuracy", "accuracy_100"), accuracy)
            own = {"run": f"{name}-{seed}", "drift": "arm", "pace": name, "trace": trace * seed}
            frames.append(pl.DataFrame([{**place, **own, **probes}]))
    return frames


@pytest.mark.parametrize("points", [-2.0, 0.0, 1.5])
def test_the_slope_is_that_among_the_ways_of_one_start(points: float) -> None:
    found = runs(points)
    assert POINTS_PER_DOUBLING(found) == pytest.approx(points, abs=1e-9)
    assert range_of_losses(found) == pytest.approx(0)
    assert doublings_apart(found) == pytest.approx(2)


def test_none_is_judged_on_a_trace_alone() -> None:
    for claim in CLAIMS:
        assert math.isnan(claim.statistic([pl.DataFrame({"trace": [1.0]})])), claim.name


def test_the_ways_have_as_many_steps_and_one_penalty() -> None:
    noisy, quiet, flattened, sharpened = AT["laptop"].branches
    assert len({continuation.steps for continuation in AT["laptop"].branches}) == 1
    assert quiet.schedule.batch_size == 32 * noisy.schedule.batch_size
    weight = noisy.schedule.learning_rate / (4 * noisy.schedule.batch_size)
    assert flattened.rule.noise**2 / 2 == pytest.approx(weight)
    assert sharpened.rule.optimiser.learning_rate < noisy.schedule.learning_rate


def test_the_panel_has_a_picture_for_each_probe() -> None:
    (panel,) = intervention_panels(pl.concat(runs(0.0), how="diagonal_relaxed"))
    assert [chart.y.column for chart in panel.charts[:-1]] == [
        "accuracy",
        "standardised_accuracy",
        "accuracy_100",
    ]


def test_a_single_way_says_nothing_of_a_difference() -> None:
    alone = [run for run in runs(0.0) if run["pace"][0] in ("start", "flattened")]
    for statistic in (range_of_losses, doublings_apart, POINTS_PER_DOUBLING):
        assert math.isnan(statistic(alone))
