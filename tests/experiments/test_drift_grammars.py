"""The drift's clock on random grammars: its statistics on traces by one law or another, and its plan."""

import math
from collections.abc import Callable

import polars as pl
import pytest
from test_drift_statistics import START_TRACE, by_distance, by_tau, by_tau_without_the_batch, runs

from isoloss.experiments.design import builtin_designs
from isoloss.experiments.drift_runs import DriftRuns
from isoloss.experiments.scale import scale_named
from isoloss.experiments.schedules import Clock
from isoloss.experiments.statistics.over_languages import MeanOverLanguages, WorstBut
from isoloss.experiments.suite.drift_grammars import CLAIMS, LAPTOP, by_grammar, standing
from isoloss.results.verdict import Verdict

PLAN = DriftRuns(LAPTOP.widths, LAPTOP.schedules, LAPTOP.times, control_checkpoints=1)
STATISTICS = {claim.name: claim.statistic for claim in CLAIMS}
Law = Callable[[Clock, int], float]


def on_grammars(*laws: Law, noise: float = 0.0) -> list[pl.DataFrame]:
    """The runs of the laptop's plan on as many grammars as laws."""
    return [
        run.with_columns(language=pl.lit(f"grammar {place}"))
        for place, law in enumerate(laws)
        for run in runs(law, plan=PLAN, noise=noise)
    ]


@pytest.mark.parametrize(
    ("law", "rate", "batch", "apart"),
    [(by_tau, 1.0, 1.0, 0.0), (by_distance, 1.0, 0.0, 0.3), (by_tau_without_the_batch, 2.0, 0.0, 0.45)],
)
def test_claims_on_exponents_and_clock_tell_laws_apart(
    law: Law, rate: float, batch: float, apart: float
) -> None:
    found = on_grammars(law, law)
    assert STATISTICS["rate-exponent"](found) == pytest.approx(rate, abs=0.12)
    assert STATISTICS["batch-exponent"](found) == pytest.approx(batch, abs=0.12)
    assert STATISTICS["one-clock"](found) == pytest.approx(apart, abs=0.05)


def test_two_grammars_on_which_the_trace_rises_do_not_contradict_eight_of_ten() -> None:
    def rising(schedule: Clock, step: int) -> float:
        return START_TRACE * (1 + schedule.time(step))

    fall = STATISTICS["trace-falls"]
    assert fall(on_grammars(*[by_tau] * 8, rising, rising)) > 0.25
    assert fall(on_grammars(*[by_tau] * 7, rising, rising, rising)) < 0


def test_an_undefined_value_is_the_worst_and_undoes_a_mean() -> None:
    frames = [
        pl.DataFrame({"language": [str(place)], "fall": [fall]}) for place, fall in enumerate((1, 2, 3))
    ]

    def undefined_on_the_first(own: list[pl.DataFrame]) -> float:
        return math.nan if own[0]["fall"][0] == 1 else float(own[0]["fall"][0])

    assert WorstBut(undefined_on_the_first, left_out=1, largest=True)(frames) == 3
    assert WorstBut(undefined_on_the_first, left_out=1, largest=False)(frames) == 2
    assert math.isnan(WorstBut(undefined_on_the_first, left_out=0, largest=True)(frames))
    assert math.isnan(WorstBut(undefined_on_the_first, left_out=3, largest=True)(frames))
    assert math.isnan(MeanOverLanguages(undefined_on_the_first)(frames))
    assert math.isnan(MeanOverLanguages(undefined_on_the_first)([pl.DataFrame({"fall": [1.0]})]))


def test_each_grammar_is_judged_by_its_own_runs() -> None:
    frames = [
        frame.with_columns(complete=pl.lit(value=True), saturated=pl.lit(value=True))
        for frame in on_grammars(by_tau, by_distance, noise=0.002)
    ]
    named = [frame.with_columns(run=pl.format("{} {}", "language", "run")) for frame in frames]
    rows = by_grammar(pl.concat(named, how="diagonal_relaxed"))
    assert rows["language"].to_list() == ["grammar 0", "grammar 1"]
    assert rows["batch_verdict"].to_list() == [Verdict.SUPPORTED, Verdict.NOT_SUPPORTED]
    assert "steps go as B on 1 (1 against)." in standing(rows)
    undefined = rows.with_columns(
        rate=pl.when(pl.col("language") == "grammar 1").then(math.nan).otherwise("rate")
    )
    assert "no exponents on grammar 1, and so no mean" in standing(undefined)


def test_the_laptops_grammars_are_ten_with_each_seed_and_schedule() -> None:
    planned = builtin_designs()["drift-grammars"].at(scale_named("laptop")).runs
    assert len(planned) == 10 * 5 * (1 + len(LAPTOP.schedules))
    assert len({run.name for run in planned}) == len(planned)
    assert len({run.language.digest for run in planned}) == 10
