"""By which powers of rate and batch steps go, on traces that follow one law or another."""

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from test_drift_statistics import RELATIVE, START_TRACE, by_distance, by_tau, by_tau_without_the_batch, runs

from isoloss.experiments.drift_exponents import (
    OverFalls,
    StepsToAFall,
    batch_exponent,
    bend,
    rate_exponent,
    steps_to,
)
from isoloss.experiments.drift_statistics import Curve
from isoloss.experiments.schedules import Clock, Schedule
from isoloss.experiments.statistics.along_runs import MedianOverSeeds
from isoloss.experiments.suite.drift import CLAIMS

RATE, BATCH = (MedianOverSeeds(OverFalls(exponent)) for exponent in (rate_exponent, batch_exponent))


@pytest.mark.parametrize(
    ("law", "rate", "batch"),
    [(by_tau, 2.0, 1.0), (by_distance, 1.0, 0.0), (by_tau_without_the_batch, 2.0, 0.0)],
)
def test_the_exponents_of_a_law_are_found(law: object, rate: float, batch: float) -> None:
    found = runs(law, plan=RELATIVE)
    assert RATE(found) == pytest.approx(rate, abs=0.12)
    assert BATCH(found) == pytest.approx(batch, abs=0.12)


def test_a_fall_that_is_reached_several_times_counts_at_the_first() -> None:
    schedule = Schedule(0.1, 64)
    steps = (100, 200, 400, 800, 1600)
    times = np.array([schedule.time(step) for step in steps])
    up_and_down = Curve(("grammar", 8), "drift", schedule, steps, times, np.array([0.1, 0.5, 1, 0.9, 1]))
    rising = replace(up_and_down, fallen=np.linspace(0.4, 2, 5))
    first, second = 2 ** steps_to([up_and_down, rising], 1.0).steps  # means of the steps averaged over
    assert first == pytest.approx((1 + 400) / 2, rel=1e-9)
    assert (1 + 200) / 2 < second < first


def test_a_fall_above_a_plateau_comes_after_its_last_checkpoint() -> None:
    schedule = Schedule(0.1, 64)
    steps = (1000, 2000, 4000, 8000)
    times = np.array([schedule.time(step) for step in steps])
    back_a_while = Curve(("grammar", 8), "drift", schedule, steps, times, np.array([0.1, 0.5, 0.4, 1]))
    slower = replace(back_a_while, fallen=np.array([0.1, 0.3, 0.4, 0.6]))
    reached, _ = steps_to([back_a_while, slower], 1.0).steps
    _, _, before, after = np.log2(times / schedule.time_per_step)
    assert reached == pytest.approx(before + (0.6 - 0.5) / (1 - 0.5) * (after - before), rel=1e-9)


def test_with_traces_as_uncertain_as_measured_ones_claims_tell_laws_apart() -> None:
    """In the claimed region by the theorem's law, and outside by one without the noise or the batch."""
    claims = {claim.name: claim for claim in CLAIMS if claim.name.endswith("-exponent")}
    laws = (by_tau, by_distance, by_tau_without_the_batch)
    inside = {
        name: [
            claim.claimed.low < claim.statistic(runs(law, plan=RELATIVE, noise=0.01)) < claim.claimed.high
            for law in laws
        ]
        for name, claim in claims.items()
    }
    assert inside == {"rate-exponent": [True, False, True], "batch-exponent": [True, False, False]}


def test_resistance_and_finite_steps_are_read_off() -> None:
    """The trace falls by 1 / (1 + B / 250r) at most, and by steps of η (1 + η)."""

    def resisted(schedule: Clock, step: int) -> float:
        rate, batch = schedule.learning_rate, schedule.batch_size
        floor = 1 / (1 + batch / (250 * rate))
        fallen = floor * (1 - math.exp(-schedule.time(step) / 4 / floor))
        return START_TRACE * 2**-fallen

    def hurried(schedule: Clock, step: int) -> float:
        return START_TRACE * 2 ** -((schedule.time(step) * (1 + schedule.learning_rate)) ** 0.5)

    deepening = OverFalls(batch_exponent, deepening=True)
    assert MedianOverSeeds(deepening)(runs(resisted, plan=RELATIVE)) > 0.1
    assert MedianOverSeeds(deepening)(runs(by_tau, plan=RELATIVE)) == pytest.approx(0, abs=0.05)
    # log2 of (1.5 / 1.25) less that of (1.25 / 1.125)
    bent = MedianOverSeeds(OverFalls(bend))(runs(hurried, plan=RELATIVE))
    assert bent == pytest.approx(math.log2(1.5 / 1.25) - math.log2(1.25 / 1.125), abs=0.05)


def test_paces_that_do_not_tell_rate_from_batch_have_no_exponents() -> None:
    three = np.array([1.0, 2.0, 3.0])
    assert np.isnan(StepsToAFall(three, three, three).exponents).all()
    four = np.array([1.0, 2.0, 3.0, 4.0])
    assert np.isnan(StepsToAFall(four, four, four).exponents).all()
    assert math.isnan(bend(StepsToAFall(four, 2 * four, four)))
    assert math.isnan(RATE([]))
    rising = runs(lambda schedule, step: START_TRACE * (1 + schedule.time(step)), plan=RELATIVE)
    assert math.isnan(RATE(rising))
    assert math.isnan(MedianOverSeeds(OverFalls(rate_exponent))([pl.DataFrame({"trace": [1.0]})]))
