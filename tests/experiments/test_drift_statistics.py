"""The claims about the drift, on traces that are a function of one clock or another."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from isoloss.experiments.drift_panels import drift_panels, leaving, leaving_panels, over_seeds
from isoloss.experiments.drift_runs import DriftRuns
from isoloss.experiments.drift_statistics import (
    change_of_loss,
    curves,
    distance_between_schedules,
    excess_loss,
    halvings_of_trace,
    points_per_halving,
    share_that_falls_without_noise,
    speed_over_theory,
    with_start,
)
from isoloss.experiments.schedules import Clock, RelativeSchedule, Schedule
from isoloss.experiments.suite.drift import AT, CLAIMS
from isoloss.experiments.suite.drift_limits import SETTINGS

PACES = tuple(Schedule(*pace) for pace in ((0.2, 32), (0.1, 32), (0.4, 128), (0.2, 128), (0.4, 64)))
LAPTOP = replace(SETTINGS["laptop"], widths=(32, 48), schedules=PACES)
RELATIVE = AT["laptop"]
START_TRACE, START_LOSS, START_ACCURACY, LARGEST = 16.0, 1.4, 0.85, 4.0


def by_tau(schedule: Clock, step: int, speed: float = 20.0) -> float:
    return START_TRACE / (1 + speed * schedule.time(step)) ** 0.5


def by_distance(schedule: Clock, step: int, speed: float = 1 / 50) -> float:
    return START_TRACE / (1 + speed * schedule.learning_rate * step) ** 0.5


def by_tau_without_the_batch(schedule: Clock, step: int, speed: float = 20.0) -> float:
    return by_tau(replace(schedule, batch_size=64), step, speed)


def runs(
    trace: Callable[[Clock, int], float],
    *,
    points: float = 0.0,
    excess: float = 1.0,
    plan: DriftRuns = LAPTOP,
    noise: float = 0.0,
) -> list[pl.DataFrame]:
    """Each seed starts from a different trace; accuracy gains `points` per halving.

    `noise` is the deviation of each trace's logarithm.
    """
    frames, generator = [], np.random.default_rng(0)
    for width in plan.widths:
        for seed in (1, 2, 3):
            factor = 1 + seed / 10
            model = {"language": "grammar", "width": width, "seed": seed, "saturated": True}
            start = {"trace": factor * START_TRACE, "loss": START_LOSS, "accuracy": START_ACCURACY}
            start |= {"stable_rate": 2 / LARGEST}
            name = f"width-{width}-seed-{seed}"
            begun = {"run": f"start-{name}", "step": 5657, "drift": "start", "pace": "start"}
            frames.append(pl.DataFrame([model | start | begun]))
            drifting = [("drift", schedule, plan.steps(schedule)) for schedule in plan.schedules]
            for part, schedule, steps in (*drifting, ("control", plan.control, plan.control_steps)):
                setting = {"learning_rate": schedule.learning_rate, "batch_size": schedule.batch_size}
                rows = []
                for step in steps:
                    at = factor * trace(schedule, step) * math.exp(noise * generator.normal())
                    gained = points / 100 * math.log2(START_TRACE / trace(schedule, step))
                    numbers = {"trace": at, "loss": START_LOSS, "accuracy": START_ACCURACY + gained}
                    rate = start["stable_rate"] * schedule.learning_rate
                    raw = START_LOSS + excess * rate * at / (4 * schedule.batch_size)
                    place = {"run": f"{schedule.key}-{name}", "step": step}
                    place |= {"drift": part, "pace": str(schedule)}
                    rows.append(model | place | setting | numbers | {"raw_loss": raw})
                frames.append(pl.DataFrame(rows))
    return frames


def test_on_one_curve_over_tau_all_claims_about_the_clock_hold() -> None:
    found = runs(by_tau)
    assert distance_between_schedules(found) == pytest.approx(0.0, abs=0.03)  # steps are integers
    assert change_of_loss(found) == pytest.approx(0.0)
    assert excess_loss(found) == pytest.approx(0.0)
    assert halvings_of_trace(found) == pytest.approx(0.5 * math.log2(5), abs=0.02)
    assert share_that_falls_without_noise(found) < 0.1
    assert points_per_halving(found) == pytest.approx(0.0, abs=1e-9)


def test_where_the_noise_does_nothing_the_clock_fails() -> None:
    found = runs(by_distance)
    assert distance_between_schedules(found) > 0.5
    assert share_that_falls_without_noise(found) == pytest.approx(1.0)
    assert distance_between_schedules(runs(by_tau_without_the_batch)) > 0.5


def test_accuracy_and_excess_loss_are_read_off() -> None:
    found = runs(by_tau, points=3.0, excess=2.0)
    assert points_per_halving(found) == pytest.approx(3.0)
    assert excess_loss(found) == pytest.approx(1.0)


def test_what_the_control_gains_is_no_gain_of_the_drift() -> None:
    gained = pl.col("accuracy") + pl.when(pl.col("drift") == "control").then(0.1).otherwise(0.0)
    found = [run.with_columns(accuracy=gained) for run in runs(by_tau, points=3.0)]
    assert points_per_halving(found) == pytest.approx(3.0)


def test_a_change_of_loss_counts_wherever_it_is_largest() -> None:
    found = runs(by_tau)
    worse = [
        run.with_columns(loss=pl.lit(1.61))
        if run["pace"][0] == "η 0.1, B 32" and run["width"][0] == 48
        else run
        for run in found
    ]
    assert change_of_loss(worse) == pytest.approx(0.15)


def test_every_claim_can_fail_and_none_is_judged_on_a_trace_alone() -> None:
    rising = runs(lambda schedule, step: START_TRACE * (1 + schedule.time(step)), points=-5.0, excess=0.1)
    for claim in CLAIMS:
        assert math.isnan(claim.statistic([pl.DataFrame({"trace": [1.0]})])), claim.name
    assert halvings_of_trace(rising) < 0
    assert math.isnan(distance_between_schedules(rising))
    assert excess_loss(rising) < -0.5


def test_the_speed_is_held_against_the_predicted_one() -> None:
    """A trace of 3 t^(-1/4) falls by (3/4) t^(-5/4), t = λ²τ, and here half as fast as predicted."""
    schedule = RELATIVE.schedules[0]
    found = []
    for run in runs(lambda schedule, step: 3.0 * schedule.time(step) ** -0.25, plan=RELATIVE):
        drifting = run["drift"][0] == "drift" and run["learning_rate"][0] == schedule.learning_rate
        if drifting and run["batch_size"][0] == schedule.batch_size:
            factor = 1 + run["seed"][0] / 10
            rate = 2 * factor * 0.75 * schedule.time(run["step"][1]) ** -1.25 * LARGEST**2
            predicted = [None, rate, None, None, None]
            run = run.with_columns(predicted_descent=pl.Series(predicted, dtype=pl.Float64))
        found.append(run)
    assert speed_over_theory(found) == pytest.approx(-1.0, abs=1e-6)


def test_a_run_without_its_start_is_left_out() -> None:
    found = runs(by_tau)
    without = [run for run in found if run["drift"][0] != "start" or run["seed"][0] != 2]
    assert set(with_start(without)["seed"].to_list()) == {1, 3}
    times = next(iter(curves(without, "drift"))).times
    assert np.all(np.diff(times) > 0)


def test_the_panels_show_means_over_seeds_at_equal_times() -> None:
    table = pl.concat(runs(by_tau), how="diagonal_relaxed")
    means = over_seeds(table)
    schedules = len(LAPTOP.schedules) + 1
    assert means["seeds"].unique().to_list() == [3]
    assert means.filter(pl.col("drift") != "start").n_unique(["width", "pace"]) == 2 * schedules
    shown = drift_panels(table)
    assert [panel.name for panel in shown] == [
        "clock-grammar-32",
        "distance-grammar-32",
        "clock-grammar-48",
        "distance-grammar-48",
    ]
    only_starts = table.filter(pl.col("drift") == "start").select(
        "run", "language", "width", "seed", "step", "drift", "pace", "trace"
    )
    assert len(drift_panels(only_starts)) == 4


def test_a_single_pace_says_nothing_of_a_clock() -> None:
    found = runs(by_tau)
    first = str(LAPTOP.schedules[0])
    alone = [run for run in found if run["drift"][0] != "drift" or run["pace"][0] == first]
    assert math.isnan(distance_between_schedules(alone))
    # A model with a single remaining pace does not hide the result of the other's paces.
    width = LAPTOP.widths[0]
    other = [run.with_columns(width=pl.lit(2 * width)) for run in alone if run["width"][0] == width]
    both = [*runs(by_distance), *other]
    assert distance_between_schedules(both) == distance_between_schedules(runs(by_distance))


def test_the_share_of_a_fall_that_was_a_rise_is_unknown() -> None:
    risen = [run.with_columns(trace=1 / pl.col("trace")) for run in runs(by_tau)]
    assert math.isnan(share_that_falls_without_noise(risen))


def test_a_control_without_its_twin_is_left_out() -> None:
    """The control belongs to the first pace: no other pace of its rate, with other steps, replaces it."""
    found = runs(by_tau)
    twin, control = LAPTOP.schedules[0], LAPTOP.control
    bereft = [run for run in found if run["pace"][0] != str(twin)]
    assert math.isnan(share_that_falls_without_noise(bereft))
    smaller = Schedule(twin.learning_rate, twin.batch_size // 4)
    steps = LAPTOP.steps(smaller)
    assert steps[0] < LAPTOP.control_steps[0]
    others = []
    for run in (run for run in found if run["pace"][0] == str(twin)):
        rows = run.with_columns(
            run=pl.lit(f"smaller-{run['run'][0]}"),
            schedule=pl.lit(str(smaller)),
            batch_size=pl.lit(smaller.batch_size),
            step=pl.Series(steps),
            trace=pl.col("trace") / 2,
        )
        others.append(rows)
    assert control.learning_rate == smaller.learning_rate
    expected = share_that_falls_without_noise(found)
    assert share_that_falls_without_noise([*found, *others]) == expected
    assert math.isnan(share_that_falls_without_noise([*bereft, *others]))


def test_of_most_seeds_one_run_that_leaves_decides_nothing() -> None:
    found = runs(by_tau, plan=RELATIVE)
    jumped = found[1].with_columns(pl.lit(99.0).alias("trace"), pl.lit(1.9).alias("loss"))
    for claim in CLAIMS:
        before, after = claim.statistic(found), claim.statistic([found[0], jumped, *found[2:]])
        # Of three seeds the median moves to a neighbour, and these are alike.
        assert after == pytest.approx(before, abs=0.01, nan_ok=True), claim.name
    assert distance_between_schedules([found[0], jumped, *found[2:]], clock=RelativeSchedule) > 0.5


def test_a_run_that_leaves_is_named_and_counted() -> None:
    found = runs(by_tau, plan=RELATIVE)
    gone = found[1].with_columns(pl.lit(START_LOSS * 1.13).alias("loss"))
    table = pl.concat([found[0], gone, *found[2:]], how="diagonal_relaxed")
    rows = leaving(table)
    assert rows.filter("left")["run"].to_list() == [gone["run"][0]]
    assert rows.filter("left")["rise"].to_list() == pytest.approx([0.13])
    (panel,) = leaving_panels(table)
    assert f"1 of 18 runs leave their minimum: {gone['run'][0]}." in panel.caption
    assert panel.data.filter("left")["share_left"].to_list() == pytest.approx([1 / 3])
    assert (
        "0 of 18 runs leave their minimum."
        in leaving_panels(pl.concat(found, how="diagonal_relaxed"))[0].caption
    )
    assert leaving_panels(pl.DataFrame()) == ()
