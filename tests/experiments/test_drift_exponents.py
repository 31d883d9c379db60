"""By which powers of rate and batch steps go, on traces by one law or another, and on ten grammars."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest
from test_drift_statistics import RELATIVE, START_TRACE, by_distance, by_tau, by_tau_without_the_batch, runs

from isoloss.experiments.design import builtin_designs
from isoloss.experiments.drift_exponents import (
    CLAIMS_OF_GRAMMARS,
    OverFalls,
    StepsToAFall,
    WorstBut,
    batch_exponent,
    bend,
    divergence_at_the_starts,
    rate_exponent,
    steps_to,
)
from isoloss.experiments.drift_runs import DriftRuns
from isoloss.experiments.drift_statistics import Curve
from isoloss.experiments.scale import scale_named
from isoloss.experiments.schedules import Clock, Schedule
from isoloss.experiments.statistics.along_runs import MedianOverSeeds
from isoloss.experiments.suite.drift import CLAIMS
from isoloss.experiments.suite.drift_grammars import LAPTOP, by_grammar, standing
from isoloss.results.verdict import Verdict

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


PLAN = DriftRuns((48,), LAPTOP.schedules, LAPTOP.times, control_checkpoints=1)
STATISTICS = {claim.name: claim.statistic for claim in CLAIMS_OF_GRAMMARS}
Law = Callable[[Clock, int], float]


def on_grammars(*laws: Law, noise: float = 0.0) -> list[pl.DataFrame]:
    """The runs of the laptop's plan on as many grammars as laws."""
    return [
        run.with_columns(language=pl.lit(f"grammar {place}"))
        for place, law in enumerate(laws)
        for run in runs(law, plan=PLAN, noise=noise)
    ]


SLOW, SLOW_WITHOUT_BATCH = (partial(law, speed=0.06) for law in (by_tau, by_tau_without_the_batch))
SLOW_BY_DISTANCE = partial(by_distance, speed=0.06 / 64)
"""A fall as in pilot runs: half a halving at the last time."""


def test_claims_hold_of_one_clock() -> None:
    found = on_grammars(*[SLOW] * 3)
    assert all(STATISTICS[name](found) < 0.02 for name in ("one-clock", "rate-exponent", "batch-exponent"))


def test_claims_tell_other_laws_apart() -> None:
    of_distance, without_batch = (on_grammars(*[law] * 3) for law in (SLOW_BY_DISTANCE, SLOW_WITHOUT_BATCH))
    assert STATISTICS["one-clock"](of_distance) == pytest.approx(0.74, abs=0.02)
    assert STATISTICS["rate-exponent"](of_distance) < 0.2
    assert STATISTICS["batch-exponent"](of_distance) == pytest.approx(1.0, abs=0.1)
    assert STATISTICS["one-clock"](without_batch) == pytest.approx(1.7, abs=0.1)
    # three times the batch has fallen half as far by the first checkpoint, so that no paces tell a from b
    assert math.isnan(STATISTICS["batch-exponent"](without_batch))


def test_two_grammars_on_which_the_trace_rises_do_not_contradict_eight_of_ten() -> None:
    def rising(schedule: Clock, step: int) -> float:
        return START_TRACE * (1 + schedule.time(step))

    fall = STATISTICS["trace-falls"]
    assert fall(on_grammars(*[SLOW] * 8, rising, rising)) > 0.25
    assert fall(on_grammars(*[SLOW] * 7, rising, rising, rising)) < 0


def test_what_starts_lack_is_their_median_share_of_the_entropy() -> None:
    def run(part: str, kl: float) -> pl.DataFrame:
        return pl.DataFrame({"language": ["one"], "drift": [part], "kl": [kl], "loss": [2.0 + kl]})

    starts = [run("start", kl) for kl in (0.02, 0.04, 1.0)]
    assert divergence_at_the_starts([*starts, run("drift", 3.0)]) == pytest.approx(0.02)
    assert math.isnan(divergence_at_the_starts([run("drift", 3.0)]))


def test_an_undefined_value_is_the_worst() -> None:
    frames = [
        pl.DataFrame({"language": [str(place)], "fall": [fall]}) for place, fall in enumerate((1, 2, 3))
    ]

    def undefined_on_the_first(own: list[pl.DataFrame]) -> float:
        return math.nan if own[0]["fall"][0] == 1 else float(own[0]["fall"][0])

    assert WorstBut(undefined_on_the_first, left_out=1, largest=True)(frames) == 3
    assert WorstBut(undefined_on_the_first, left_out=1, largest=False)(frames) == 2
    assert math.isnan(WorstBut(undefined_on_the_first, left_out=0, largest=True)(frames))
    assert math.isnan(WorstBut(undefined_on_the_first, left_out=3, largest=True)(frames))


@pytest.mark.thorough
def test_each_grammar_is_judged_by_its_own_runs() -> None:
    frames = [
        frame.with_columns(complete=pl.lit(value=True), saturated=pl.lit(value=True))
        for frame in on_grammars(SLOW, SLOW_BY_DISTANCE, noise=0.002)
    ]
    named = [frame.with_columns(run=pl.format("{} {}", "language", "run")) for frame in frames]
    rows = by_grammar(pl.concat(named, how="diagonal_relaxed"))
    assert rows["language"].to_list() == ["grammar 0", "grammar 1"]
    assert rows["batch_verdict"].to_list() == [Verdict.SUPPORTED, Verdict.NOT_SUPPORTED]
    assert "and as B on 1 (1 against)." in standing(rows)
    undefined = rows.with_columns(
        rate=pl.when(pl.col("language") == "grammar 1").then(math.nan).otherwise("rate")
    )
    assert "no fall on grammar 1, which" in standing(undefined)


def test_the_laptops_grammars_are_ten_with_each_seed_and_schedule() -> None:
    planned = builtin_designs()["drift-grammars"].at(scale_named("laptop")).runs
    assert len(planned) == 10 * 5 * (1 + len(LAPTOP.schedules))
    assert len({run.name for run in planned}) == len(planned)
    assert len({run.language.digest for run in planned}) == 10
