"""The planned runs of the drift."""

from dataclasses import replace

import pytest

from isoloss.errors import BadInput
from isoloss.experiments.drift_runs import DriftRuns, Measured, every_drift_run
from isoloss.experiments.scale import scale_named
from isoloss.experiments.schedules import STABLE_RATE, RelativeSchedule, Schedule
from isoloss.experiments.suite.drift import AT, drift
from isoloss.experiments.suite.drift_limits import SETTINGS
from isoloss.experiments.suite.figure_1 import after_saturation

SMOKE, LAPTOP = (AT[name] for name in ("smoke", "laptop"))


def test_every_pace_has_its_checkpoints_at_the_same_times() -> None:
    scale = scale_named("laptop")
    runs = drift(scale, LAPTOP).runs
    for run in runs:
        labels = dict(run.labels)
        if labels["drift"] != "drift":
            continue
        schedule = RelativeSchedule(run.update_rule.share, run.batch_size)
        assert str(schedule) == labels["pace"]
        for step, time in zip(run.checkpoint_steps, LAPTOP.times, strict=True):
            assert schedule.time(step) == pytest.approx(time, abs=schedule.time_per_step)
        assert run.architecture.dropout == 0
        assert run.averaging_horizon == schedule.horizon
    schedules = len(LAPTOP.schedules) + 1
    assert len(runs) == (schedules + 1) * len(LAPTOP.widths) * len(scale.seeds)


def test_rates_and_batches_are_told_apart_by_three_rates_with_two_batches_each() -> None:
    """At one rate batches are threefold apart, and each rate has the same two ratios of batch to rate."""
    ratios = sorted({schedule.batch_size / schedule.learning_rate for schedule in LAPTOP.schedules})
    rates = {schedule.learning_rate for schedule in LAPTOP.schedules}
    assert ratios == [64, 192]
    assert len(LAPTOP.schedules) == len(ratios) * len(rates) == 6


def test_at_every_start_the_rate_is_measured_that_is_stable() -> None:
    runs = drift(scale_named("laptop"), LAPTOP).runs
    starts = {run.digest for run in runs if run.continues is None}
    for run in runs:
        if run.continues is None:
            assert STABLE_RATE in [measured.quantity for measured in run.measured]
        else:
            assert run.update_rule.stable == STABLE_RATE
            assert run.continues.run.digest in starts


def test_three_paces_of_one_width_share_the_figures_models() -> None:
    scale = scale_named("laptop")
    short = SETTINGS["laptop"]
    assert short.schedules == (Schedule(0.1, 32), Schedule(0.2, 64), Schedule(0.4, 128))
    assert len({schedule.learning_rate / schedule.batch_size for schedule in short.schedules}) == 1
    figure = {run.digest for run in after_saturation(scale).runs}
    runs = every_drift_run(scale, short, Measured(scale.followed))
    assert {run.continues.run.digest for run in runs if run.continues} <= figure


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"schedules": (Schedule(0.1, 8),)}, "at least two learning rates or batches"),
        ({"schedules": (Schedule(0.1, 8), Schedule(0.1, 8))}, "each once"),
        ({"times": (0.2, 0.1)}, "must rise from above 0"),
        ({"control_checkpoints": 4}, "from 1 to 3 checkpoints"),
    ],
)
def test_what_cannot_be_compared_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        replace(SMOKE, **changed)


def test_a_pace_too_fast_for_the_times_and_a_width_that_is_not_there_are_refused() -> None:
    with pytest.raises(BadInput, match="past two of the times"):
        DriftRuns((16,), (Schedule(2.0, 1), Schedule(0.1, 8)), (0.01, 0.02), 1).steps(Schedule(2.0, 1))
    with pytest.raises(BadInput, match="starts from models of widths"):
        drift(scale_named("smoke"), replace(SMOKE, widths=(17,)))
