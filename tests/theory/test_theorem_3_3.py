from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from small_problems import factor_problem

from isoloss.errors import BadInput
from isoloss.progress import silent
from isoloss.results.verdict import Verdict
from isoloss.theory import theorem_3_3_coin as coins
from isoloss.theory import theorem_3_3_factors, theorem_3_3_transformer
from isoloss.theory.minimisers import BiasedCoin, trace_flow
from isoloss.theory.optimiser_paths import SGDSettings
from isoloss.theory.theorem_3_3_coin import CELLS, coin_landscape, coin_runs
from isoloss.theory.theorem_3_3_factors import (
    IN_THE_LIMIT,
    Race,
    codimension_finding,
    fall_finding,
    flow_against_sgd,
)
from thorough_cases import others_thorough

COIN = BiasedCoin(0.7)


@pytest.fixture(scope="module")
def runs():
    end = 1 / COIN.decay_rate(1)
    rates = enumerate((0.2, 0.1, 0.06))
    return [coin_runs(COIN, 3.0, SGDSettings(rate, 1, 1000, 910 + i), (end,)) for i, rate in rates]


def verdicts(findings):
    return [finding.verdict for finding in findings]


def test_the_coins_runs_agree_with_the_closed_form(runs):
    assert verdicts(coins.coin_findings(runs, 0.03, 0.2)) == [Verdict.SUPPORTED] * 3


class Repelled(BiasedCoin):
    """Equation (1) with the opposite sign."""

    def flow(self, difference, time, batch_size):
        return super().flow(difference, -time, batch_size)


@pytest.mark.parametrize("factor", others_thorough([2, -1, 1 / 2], quick=2))
def test_another_constant_is_found_out_by_rate_and_orders(runs, factor):
    """In equation (1), a constant (or 1/B) `factor` times as large is as much more time."""
    coin = COIN if factor > 0 else Repelled(COIN.heads)
    wrong = [replace(run, coin=coin, times=(abs(factor) * run.times[0],)) for run in runs]
    rate, of_difference, of_parameters = coins.coin_findings(wrong, 0.03, 0.2)
    signed = replace(rate, measured=rate.measured if factor > 0 else -rate.measured)
    assert verdicts((signed, of_difference)) == [Verdict.NOT_SUPPORTED] * 2
    assert of_parameters.verdict != Verdict.SUPPORTED


def test_runs_whose_mean_has_crossed_zero_contradict_the_decay(runs):
    crossed = [replace(runs[0], differences=-runs[0].differences), *runs[1:]]
    rate = coins.coin_findings(crossed, 0.03, 0.2)[0]
    assert np.isnan(rate.measured)
    assert rate.verdict == Verdict.NOT_SUPPORTED


def test_the_coins_statement():
    settings = replace(coins.SMOKE, paths=50, learning_rates=(0.3, 0.2), batch_sizes=(1, 2), seed=900)
    statement = coins.theorem_3_3_coin(settings)
    assert [f.name for f in statement.findings][::3] == ["decay rate, B = 1", "decay rate, B = 2"]
    decay = statement.panels[0].data
    predicted = decay.filter("predicted").sort("t")
    assert np.allclose(predicted["difference"], 3 * np.exp(-0.21 * predicted["t"]))
    runs = decay.filter(~pl.col("predicted"))
    assert runs.height == 2 * 2 * 4
    ends = runs.group_by("series").agg(pl.col("t").max())["t"]
    assert ends.to_list() == pytest.approx([predicted["t"].max()] * 4)  # t / B, whatever the batch size


def test_the_landscape_is_the_loss_with_the_paths_over_it():
    panel = coin_landscape(COIN, 3.0, SGDSettings(0.2, 1, 1, seed=900))
    data = panel.data
    cells = data.filter(pl.col("height").is_not_null())
    assert cells.height == CELLS**2
    u, v, height = (cells[name].to_numpy() for name in ("u", "v", "height"))
    heads = 1 / (1 + np.exp(-u * v))
    kl = 0.7 * np.log(0.7 / heads) + 0.3 * np.log(0.3 / (1 - heads))
    assert np.allclose(height, kl)
    for name in ("minimisers: uv = logit p", "equation (1)", "flattest minimiser: u = v"):
        line = data.filter(series=name)
        assert np.allclose(line["u"] * line["v"], COIN.logit)
        assert line["height"].null_count() == line.height
    run = data.filter(series="one run of SGD, η = 0.2")
    assert run["u"][0] ** 2 - run["v"][0] ** 2 == pytest.approx(3.0)
    assert abs(run["u"][-1] ** 2 - run["v"][-1] ** 2) < 0.3
    with pytest.raises(BadInput, match="prefers heads"):
        coin_landscape(BiasedCoin(0.3), 3.0, SGDSettings(0.1, 1, 1, seed=900))


def test_coins_and_starts_that_do_not_exist_are_refused():
    with pytest.raises(BadInput, match="between 0 and 1"):
        BiasedCoin(1.0)
    with pytest.raises(BadInput, match="fair coin"):
        BiasedCoin(0.5).minimiser(-1.0)


RACE = Race((0.2, 0.05), 0.5, 2, paths=60, batch_size=1, seed=900, relative_tolerance=1e-6)


@pytest.fixture(scope="module")
def problem():
    minimisers, start = factor_problem(words=2, rank=2)
    return minimisers, minimisers.reach(start)


@pytest.fixture(scope="module")
def race(problem):
    return flow_against_sgd(*problem, RACE)


def both_falls(race):
    in_the_limit = fall_finding(IN_THE_LIMIT, race.fall_in_the_limit, 0.05)
    return in_the_limit, fall_finding(theorem_3_3_transformer.AT_LAST_RATE, race.fall(race.runs[-1]), 0.1)


@pytest.mark.thorough
def test_sgd_on_factors_follows_the_flow(race):
    assert verdicts((codimension_finding(race, 4), *both_falls(race))) == [Verdict.SUPPORTED] * 3
    assert race.order_of_distance.value == pytest.approx(0.5, abs=0.1)
    assert codimension_finding(race, 5).verdict == Verdict.NOT_SUPPORTED


@pytest.mark.parametrize("factor", others_thorough([2, -1, 1 / 2], quick=2))
def test_another_constant_is_found_out_by_the_fall(problem, race, factor):
    minimisers, start = problem
    path = trace_flow(minimisers, start, [abs(factor) * time for time in race.times])
    flow = torch.tensor([minimisers.trace(at) for at in path])
    wrong = replace(race, flow=flow if factor > 0 else 2 * flow[0] - flow)
    assert verdicts(both_falls(wrong)) == [Verdict.NOT_SUPPORTED] * 2


def test_a_race_lasts_no_longer_than_its_last_rate_takes_the_most_steps(problem):
    short = flow_against_sgd(*problem, replace(RACE, most_steps=30, points=1, paths=2))
    last = short.runs[-1].learning_rate
    assert last == pytest.approx(RACE.rates[-1] / problem[0].trace(problem[1]))
    assert short.times[-1] == pytest.approx(30 * last**2)


def test_statements_at_smoke_size():
    statement = theorem_3_3_factors.ENTRY.compute(
        replace(theorem_3_3_factors.ENTRY.smoke, race=replace(RACE, rates=(0.2, 0.1), paths=4, points=1)),
        silent,
    )
    assert [f.name for f in statement.findings] == [
        "codimension",
        "fall of the trace",
        "order of the distance",
    ]
    data = statement.panels[0].data
    assert data.filter("predicted")["trace"].is_sorted(descending=True)
    assert data["series"].n_unique() == 1 + 2 + 4


def test_a_race_shorter_than_sgds_return_to_the_minima_is_not_judged(monkeypatch):
    race = replace(theorem_3_3_transformer.ENTRY.smoke.race, lifetimes=0.02, paths=2, seed=900)
    settings = replace(theorem_3_3_transformer.ENTRY.smoke, race=race)
    raced = []

    def race_once(*asked):
        raced.extend([] if raced else [flow_against_sgd(*asked)])
        return raced[0]

    monkeypatch.setattr(theorem_3_3_transformer, "flow_against_sgd", race_once)
    statement = theorem_3_3_transformer.ENTRY.compute(settings, silent)
    (codimension,) = statement.findings
    assert codimension.verdict == Verdict.SUPPORTED
    assert "too short, and the fall of the trace is not judged" in statement.text
    monkeypatch.setattr(theorem_3_3_transformer, "LEAST_RETURNS", 0.0)
    _, fall = theorem_3_3_transformer.ENTRY.compute(settings, silent).findings
    assert fall.standard_error > 0
