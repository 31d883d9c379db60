"""The drift's clock: the mean step of an average against the average itself, and the inverse of the time."""

import pytest

from isoloss.errors import BadInput
from isoloss.experiments.schedules import (
    SECOND_MOMENT_STEPS,
    AdamWSchedule,
    Schedule,
    checkpoint_steps,
    first_step,
    mean_step,
)
from isoloss.pretraining.descent import warmed_up


@pytest.mark.parametrize("horizon", [1, 2, 5, 200])
def test_the_mean_step_is_the_average_of_the_steps_themselves(horizon: int) -> None:
    average = 0.0
    for step in range(1, 1000):
        average += (step - average) / min(step, horizon)  # as in `WeightAverage`
        assert mean_step(step, horizon) == pytest.approx(average, rel=1e-9)


@pytest.mark.parametrize("schedule", [Schedule(0.4, 128), Schedule(0.1, 32), Schedule(0.03, 8)])
def test_the_step_of_a_time_is_the_first_that_has_reached_it(schedule: Schedule) -> None:
    for time in (0.003, 0.0125, 0.2, 2.0):
        step = first_step(schedule, time)
        assert schedule.time(step - 1) < time <= schedule.time(step)


def test_four_times_the_batch_goes_a_quarter_as_far() -> None:
    assert Schedule(0.2, 32).time(700) == pytest.approx(4 * Schedule(0.2, 128).time(700))
    assert Schedule(0.4, 32).time_per_step == pytest.approx(4 * Schedule(0.2, 32).time_per_step)


@pytest.mark.parametrize(
    ("rate", "batch"), [(0.0, 8), (-0.1, 8), (float("nan"), 8), (0.1, 0), (1e-200, 8), (1e200, 8)]
)
def test_what_makes_no_sgd_is_refused(rate: float, batch: int) -> None:
    with pytest.raises(BadInput, match="a learning rate above 0 and a batch of at least 1"):
        Schedule(rate, batch)


def test_the_time_of_adamw_is_that_of_its_rates_and_average() -> None:
    schedule = AdamWSchedule(4e-3, 32)
    rates = [warmed_up(4e-3, SECOND_MOMENT_STEPS, step) for step in range(1, 1001)]
    passed = [sum(rate**2 for rate in rates[:step]) / 4 for step in range(1, 1001)]
    assert schedule.time(150) == pytest.approx(sum(passed[:150]) / 150)
    average = sum(passed[:200]) / 200
    for step in range(201, 1001):
        average += (passed[step - 1] - average) / 200
    assert schedule.time(1000) == pytest.approx(average)


def test_the_time_of_adamw_has_no_batch_in_it() -> None:
    times = (1e-3, 2e-3, 8e-3)
    steps = checkpoint_steps(AdamWSchedule(4e-3, 32), times)
    assert steps == checkpoint_steps(AdamWSchedule(4e-3, 512), times)
    assert all(AdamWSchedule(4e-3, 32).time(step) >= time for step, time in zip(steps, times, strict=True))
    assert AdamWSchedule(8e-3, 32).time_per_step == pytest.approx(4 * AdamWSchedule(4e-3, 32).time_per_step)
