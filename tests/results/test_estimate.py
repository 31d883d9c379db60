import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from isoloss.errors import BadInput
from isoloss.results.estimate import (
    Estimate,
    deviation_over_subsets,
    mean_over_members,
    paired_difference,
    sample_mean,
)

FROZEN = json.loads(Path(__file__).with_name("frozen_intervals.json").read_text())


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_error_bar_of_a_mean_covers_the_true_mean():
    draws = torch.rand(4000, 60, generator=generator(), dtype=torch.float64)
    estimates = [sample_mean(row) for row in draws]
    covered = [abs(e.value - 0.5) < 1.96 * e.standard_error for e in estimates]
    assert 0.93 < sum(covered) / len(covered) < 0.97


def test_token_average_is_the_mean_of_all_words():
    words = [[1.0, 2.0, 4.0], [8.0], [16.0, 32.0]]
    means = torch.tensor([sum(w) / len(w) for w in words], dtype=torch.float64)
    estimate = mean_over_members(means, torch.tensor([3, 1, 2]))
    assert estimate.value == pytest.approx(sum(map(sum, words)) / 6, rel=1e-14)


def test_token_averaged_error_bar_agrees_with_the_jackknife():
    n = 2000
    lengths = torch.randint(1, 9, (n,), generator=generator())
    values = torch.randn(n, generator=generator(1), dtype=torch.float64) + lengths
    weighted = lengths * values
    left_out = (weighted.sum() - weighted) / (lengths.sum() - lengths)
    jackknife = ((n - 1) / n * (left_out - left_out.mean()).square().sum()).sqrt()
    assert mean_over_members(values, lengths).standard_error == pytest.approx(float(jackknife), rel=1e-3)


def test_equal_lengths_make_both_averages_one():
    values = torch.randn(50, generator=generator(), dtype=torch.float64)
    tokens, sentences = mean_over_members(values, torch.full((50,), 7)), sample_mean(values)
    assert tokens.value == pytest.approx(sentences.value, rel=1e-12)
    assert tokens.standard_error == pytest.approx(sentences.standard_error, rel=1e-12)


def test_pairing_removes_what_both_sides_share():
    shared = 10 * torch.randn(500, generator=generator(), dtype=torch.float64)
    first = shared + torch.randn(500, generator=generator(1))
    second = shared + torch.randn(500, generator=generator(2))
    difference = paired_difference(first, second)
    assert difference.value == pytest.approx(float(first.mean() - second.mean()), rel=1e-12)
    assert difference.standard_error < 0.2 * sample_mean(first).standard_error


def test_deviation_over_five_subsets_has_the_size_that_theory_gives():
    deviations = [
        deviation_over_subsets(torch.randn(500, generator=generator(seed), dtype=torch.float64)).value
        for seed in range(400)
    ]
    assert (sum(d**2 for d in deviations) / 400) ** 0.5 == pytest.approx(100**-0.5, rel=0.1)


@pytest.mark.parametrize(
    ("estimate", "says"),
    [
        (lambda: sample_mean(torch.ones(0)), "a mean of 0 has no standard error"),
        (lambda: sample_mean(torch.ones(1)), "a mean of 1 has no standard error"),
        (lambda: paired_difference(torch.ones(3), torch.ones(2)), "not 3 and 2"),
        (lambda: deviation_over_subsets(torch.ones(4)), "4 sentences cannot be split into 5"),
    ],
)
def test_too_few_sentences_or_others_have_no_error_bar(estimate, says):
    with pytest.raises(BadInput, match=says):
        estimate()


@pytest.mark.parametrize("row", FROZEN, ids=str)
def test_intervals_and_p_values_are_those_of_earlier_results(row):
    """Of correlations, of means over seeds, and of accuracies with Satterthwaite's degrees of freedom."""
    value, error, n, freedom, limit, confidence, low, high, bound, p_value = row
    limit = math.inf if limit is None else limit
    estimate = Estimate(value, error, n, freedom)
    expected = [math.nan if end is None else end for end in (low, high)]
    assert estimate.interval(confidence, limit) == pytest.approx(expected, rel=1e-12, abs=1e-12, nan_ok=True)
    if bound is not None:
        assert estimate.p_value(bound, limit) == pytest.approx(p_value, rel=1e-12, abs=1e-15)


def test_infinitely_many_degrees_of_freedom_are_normal():
    estimate = Estimate(0.3, 0.2, 5, math.inf)
    assert estimate.interval(0.9) == pytest.approx(stats.norm.interval(0.9, 0.3, 0.2))
    assert estimate.p_value(0.0) == pytest.approx(2 * stats.norm.sf(1.5))


def test_no_spread_is_worth_what_agreement_of_so_few_is():
    same = Estimate(0.3, 0.0, 3)
    assert (same.p_value(0.0), same.p_value(0.3), same.interval(0.75)) == (0.25, 1, (0.3, 0.3))
    assert np.isnan(same.interval(0.95)).all()
    assert Estimate(0.3, 0.0, 6).interval(0.95) == (0.3, 0.3)
    assert Estimate(1.0, 0.0, 6).interval(0.95, limit=1.0) == (1, 1)
    assert Estimate(0.3, 0.0, 6).p_value(0.0) == pytest.approx(1 / 32)
    assert Estimate(0.3, 0.0, 6).p_value(0.0, lowest=0.0) == pytest.approx(1 / 32)
    assert np.isnan(Estimate(0.3, 0.0, 5).interval(0.95)).all()
    assert Estimate(0.3, 0.0, 6).interval(0.95, lowest=0.5) == (0.5, 0.5)  # by rounding


@pytest.mark.parametrize("estimate", [Estimate(2.0, 0.5, 3), Estimate(2.0, 0.0, 5)])
def test_intervals_leave_out_just_what_the_p_value_rejects(estimate):
    for bound, confidence in itertools.product([-1.0, 0.0, 1.9, 2.0, 2.5, 9.0], [0.5, 0.9, 0.95, 0.99]):
        low, high = estimate.interval(confidence)
        assert (bound < low or bound > high) == (estimate.p_value(bound) <= 1 - confidence)


@pytest.mark.parametrize("limit", [1.0, 2.0])
@pytest.mark.parametrize("share", [-0.97, -0.3, 0.0, 0.6, 0.99])
def test_intervals_stay_within_the_limit_and_agree_with_p_values(limit, share):
    estimate = Estimate(share * limit, 0.2, 5)
    for confidence in (0.9, 0.99):
        low, high = estimate.interval(confidence, limit)
        assert -limit <= low < share * limit < high <= limit
        if abs(share) < 0.9:
            assert [estimate.p_value(end, limit) for end in (low, high)] == pytest.approx(
                [1 - confidence] * 2
            )


@pytest.mark.parametrize("value", [0.001, 0.3, 40.0])
@pytest.mark.parametrize("error", [0.0005, 0.2, 1e5])
def test_intervals_of_what_cannot_be_negative_stay_above_zero_and_agree_with_p_values(value, error):
    estimate = Estimate(value, error, 5)
    for confidence in (0.9, 0.99):
        low, high = estimate.interval(confidence, lowest=0.0)
        assert 0 <= low < value < high
        for end in (low, high):
            if end > 0:
                assert estimate.p_value(end, lowest=0.0) == pytest.approx(1 - confidence)
    assert estimate.p_value(0.0, lowest=0.0) == 0


@pytest.mark.parametrize("value", [0.0, 1e-4, 0.019])
def test_near_the_lowest_value_an_interval_is_the_plain_one_cut_off_there_but_no_shorter_above(value):
    """On the scale of logarithms, 0.0001 ± 0.01 would reach from 0 to beyond all numbers."""
    estimate = Estimate(value, 0.01, 5)
    low, high = estimate.interval(0.95, lowest=0.0)
    assert low == 0
    where_the_logarithm_ends = value * math.exp(stats.t.ppf(0.975, 4) / 2)
    assert high == pytest.approx(max(estimate.interval(0.95)[1], where_the_logarithm_ends))


@pytest.mark.parametrize("n", [3, 5, 30])
def test_a_larger_error_never_makes_an_upper_bound_surer(n: int) -> None:
    """Also where the scale changes, at an error of half of the value."""
    estimates = [Estimate(1.0, 0.01 * step, n) for step in range(1, 400)]
    upper = [estimate.interval(0.95, lowest=0.0)[1] for estimate in estimates]
    p_values = [estimate.p_value(4.0, lowest=0.0) for estimate in estimates]
    assert upper == sorted(upper)
    assert p_values == sorted(p_values)
    for estimate, end in zip(estimates, upper, strict=True):
        assert estimate.p_value(end, lowest=0.0) == pytest.approx(0.05)


@pytest.mark.thorough
def test_of_positive_numbers_the_log_scale_covers_more_often():
    """Means of skewed positive numbers, whose plain intervals reach below zero."""
    draws = np.random.default_rng(4).lognormal(0, 1, size=(4000, 6))
    truth, covered, plainly, below = math.exp(0.5), 0, 0, 0
    for values in draws:
        estimate = Estimate(float(values.mean()), float(values.std(ddof=1)) / 6**0.5, 6)
        low, high = estimate.interval(0.95, lowest=0.0)
        covered += low <= truth <= high
        low, high = estimate.interval(0.95)
        plainly += low <= truth <= high
        below += low < 0
    assert below > 400
    assert covered > plainly


def test_near_the_middle_of_the_scale_the_limit_changes_little():
    estimate = Estimate(0.01, 0.005, 5)
    assert estimate.interval(0.95, limit=2.0) == pytest.approx(estimate.interval(0.95), rel=1e-3)
    assert estimate.p_value(2.0, limit=2.0) == estimate.p_value(-2.0, limit=2.0) == 0


def test_an_interval_beyond_all_numbers_ends_at_one():
    """Of two units, whose Student's t reaches 3,000 errors far at so high a confidence."""
    low, high = Estimate(1.0, 0.5, 2).interval(0.9999, lowest=0.0)
    assert low == 0
    assert 1e300 < high < math.inf


@pytest.mark.parametrize("error", [0.0, 0.1, math.nan])
def test_at_the_ends_of_the_scale_nothing_is_known_of_few(error):
    estimate = Estimate(1.0, error, 3)
    assert np.isnan(estimate.interval(0.95, limit=1.0)).all()
    assert estimate.p_value(1.0, limit=1.0) == 1.0
