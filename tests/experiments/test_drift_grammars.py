"""The drift's clock on random grammars: its statistics on traces by one law or another, and its plan."""

import math
from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pytest
from test_drift_statistics import START_TRACE, runs

from isoloss.experiments.design import builtin_designs
from isoloss.experiments.drift_exponents import CLAIMS_OF_GRAMMARS, WorstBut, divergence_at_the_starts
from isoloss.experiments.drift_runs import DriftRuns
from isoloss.experiments.scale import scale_named
from isoloss.experiments.schedules import Clock
from isoloss.experiments.suite.drift_grammars import LAPTOP, by_grammar, standing
from isoloss.results.verdict import Verdict

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


def by_tau(schedule: Clock, step: int) -> float:
    """A fall as in pilot runs: half a halving at the last time."""
    return START_TRACE / (1 + 0.06 * schedule.time(step)) ** 0.5


def by_distance(schedule: Clock, step: int) -> float:
    return START_TRACE / (1 + 0.06 * schedule.learning_rate * step / 64) ** 0.5


def by_tau_without_the_batch(schedule: Clock, step: int) -> float:
    return by_tau(replace(schedule, batch_size=64), step)


def test_claims_hold_of_one_clock() -> None:
    found = on_grammars(*[by_tau] * 3)
    assert all(STATISTICS[name](found) < 0.02 for name in ("one-clock", "rate-exponent", "batch-exponent"))


def test_claims_tell_other_laws_apart() -> None:
    of_distance, without_batch = (on_grammars(*[law] * 3) for law in (by_distance, by_tau_without_the_batch))
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
    assert fall(on_grammars(*[by_tau] * 8, rising, rising)) > 0.25
    assert fall(on_grammars(*[by_tau] * 7, rising, rising, rising)) < 0


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
        for frame in on_grammars(by_tau, by_distance, noise=0.002)
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
