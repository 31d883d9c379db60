"""Intervals that verdicts are read from: of paired differences, and over examples and seeds at once."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from isoloss.measurements.linear_probe import Accuracy
from isoloss.measurements.verdicts import interval_of_accuracies, interval_of_difference
from isoloss.results.estimate import Estimate, paired_difference


def test_the_interval_is_that_of_a_paired_t_test():
    generator = np.random.default_rng(900)
    a, b = generator.normal(size=(2, 12))
    found = paired_difference(torch.tensor(a), torch.tensor(b))
    low, high = found.interval(0.9)
    expected = stats.ttest_rel(a, b).confidence_interval(0.9)
    assert (low, high) == (pytest.approx(expected.low), pytest.approx(expected.high))


def crossed(generator, n, seeds, of_examples, of_seeds, of_both):
    """Normal numbers for each seed (a row) and example (a column), with mean 0."""
    return (
        of_examples * generator.normal(size=n)
        + of_seeds * generator.normal(size=(seeds, 1))
        + of_both * generator.normal(size=(seeds, n))
    )


@pytest.mark.slow
@pytest.mark.parametrize("spreads", [(1.0, 0.0, 1.0), (1.0, 0.3, 1.0), (0.2, 1.0, 0.2)])
def test_intervals_hold_the_mean_over_new_examples_and_new_seeds(spreads):
    """Whichever of the two varies most: 95 %, or more where the interaction counts twice."""
    generator, held, times = np.random.default_rng(900), 0, 1500
    for _ in range(times):
        right = torch.tensor(crossed(generator, 40, 5, *spreads))
        found = Accuracy.of("made", right).minus_constant(torch.zeros(40).double())
        low, high = interval_of_accuracies(found, 0.95)
        held += low <= 0 <= high
    # Three standard errors of 95 % below; never far above what the interaction explains.
    assert 0.95 - 3 * (0.95 * 0.05 / times) ** 0.5 <= held / times <= 0.995


def test_the_error_is_both_of_examples_and_of_seeds():
    right = torch.tensor([[1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 1.0, 1.0]]).double()
    found = Accuracy.of("made", right).minus_constant(torch.zeros(4).double())
    parts = right.mean(0).var() / 4, right.mean(1).var() / 3
    assert found.value == pytest.approx(float(right.mean()))
    assert found.standard_error == pytest.approx(math.sqrt(sum(parts)))
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 2)
    assert found.degrees_of_freedom == pytest.approx(float(freedom))


def test_agreement_of_too_few_is_no_certainty():
    assert np.isnan(interval_of_difference(Estimate(1.0, 0.0, 4), 0.95)).all()
    assert interval_of_difference(Estimate(1.0, 0.0, 10), 0.95) == (1.0, 1.0)
    assert interval_of_difference(Estimate(0.0, 0.0, 2), 0.95) == (0.0, 0.0)


@pytest.mark.parametrize("correct", [0.0, 1.0])
def test_accuracies_that_agree_in_every_example_may_differ_in_those_not_seen(correct):
    """By as many as a binomial share of which n examples show none."""
    right = torch.ones(5, 60).double()
    found = Accuracy.of("made", right).minus_constant(torch.full((60,), correct).double())
    unseen = stats.beta.ppf(0.95, 1, 60)
    low, high = interval_of_accuracies(found, 0.95)
    if correct:
        assert (low, high) == (pytest.approx(-unseen), pytest.approx(unseen))
    else:
        assert (low, high) == (pytest.approx(1 - 2 * unseen), 1.0)
