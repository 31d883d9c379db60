import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import optimize
from small_problems import factor_problem, matrices_of

from isoloss.errors import BadInput
from isoloss.results.estimate import Estimate
from isoloss.theory.minimisers import BiasedCoin
from isoloss.theory.optimiser_paths import (
    SGDSettings,
    fitted_order,
    log_decay,
    root_mean_square,
    sgd_paths,
    weighted_line,
)


def after_one_step(minimisers, start, batch_size, paths):
    settings = SGDSettings(0.1, batch_size, paths, seed=900)
    (ends,) = sgd_paths(minimisers, start, settings, [0.01])
    return ends


@pytest.mark.parametrize("batch_size", [1, 5])
def test_one_step_has_the_losss_gradient_as_its_mean_and_its_covariance_over_the_batch(batch_size):
    minimisers, start = factor_problem()
    moves = (after_one_step(minimisers, start, batch_size, 40_000) - start) / -0.1
    leaf = start.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(minimisers.distributions.kl(minimisers.logits(leaf)), leaf)
    deviation = moves.std(0) / 40_000**0.5
    assert ((moves.mean(0) - gradient).abs() < 4.5 * deviation + 1e-12).all()
    covariance = matrices_of(minimisers, start).covariance / batch_size
    assert float((moves.T.cov() - covariance).norm() / covariance.norm()) < 0.03


def test_a_coins_step_multiplies_the_difference_of_squares_exactly():
    coin, rate = BiasedCoin(0.7), 0.2
    settings = SGDSettings(rate, 1, 50, seed=900)
    (ends,) = sgd_paths(coin.minimisers, coin.minimiser(3.0), settings, [rate**2])
    differences = ends[:, 0] ** 2 - ends[:, 1] ** 2
    possible = torch.tensor([3 * (1 - rate**2 * g**2) for g in (0.7, 0.3)], dtype=torch.float64)
    distance = (differences[:, None] - possible).abs()
    assert float(distance.min(1).values.max()) < 1e-12
    assert set(distance.argmin(1).tolist()) == {0, 1}


def test_paths_are_a_function_of_the_settings_and_continue_from_time_to_time():
    minimisers, start = factor_problem()
    settings = SGDSettings(0.1, 2, 3, seed=900)
    once = list(sgd_paths(minimisers, start, settings, [0.0, 0.05, 0.1]))
    (again,) = sgd_paths(minimisers, start, settings, [0.1])
    assert torch.equal(once[0], start.repeat(3, 1))
    assert torch.equal(once[-1], again)
    assert not torch.equal(again[0], again[1])
    (others,) = sgd_paths(minimisers, start, replace(settings, seed=901), [0.1])
    assert not torch.equal(others, again)
    with pytest.raises(BadInput, match="rise"):
        next(sgd_paths(minimisers, start, settings, [0.1, 0.05]))


def test_a_weighted_line_is_that_of_scipy():
    x, y, errors = [0.1, 0.2, 0.4, 0.8], [1.0, 1.3, 1.1, 2.2], [0.1, 0.2, 0.1, 0.3]
    fitted, covariance = optimize.curve_fit(
        lambda x, a, b: a + b * x, x, y, sigma=errors, absolute_sigma=True
    )
    line = weighted_line(x, [Estimate(*point, n=10) for point in zip(y, errors, strict=True)])
    assert [line.intercept.value, line.slope.value] == pytest.approx(fitted.tolist())
    found = [line.intercept.standard_error, line.slope.standard_error]
    assert found == pytest.approx(np.sqrt(covariance.diagonal()).tolist())
    assert line.intercept.n == line.slope.n == 40
    assert line.intercept.degrees_of_freedom == line.slope.degrees_of_freedom == math.inf  # errors are known
    with pytest.raises(BadInput, match="two points"):
        weighted_line([1.0], [Estimate(1.0, 0.1, 10)])


def test_errors_of_logarithms_and_roots_are_those_of_the_delta_method():
    """Of the mean 2 ± 1 of 1 and 3, and the mean 4 ± 3 of the squares 1 and 7."""
    decay = log_decay(4.0, torch.tensor([1.0, 3.0]), unit=2.0)
    assert (decay.value, decay.standard_error) == pytest.approx((math.log(2) / 2, 1 / 2 / 2))
    root = root_mean_square(torch.tensor([1.0, 7.0**0.5], dtype=torch.float64))
    assert (root.value, root.standard_error) == pytest.approx((2.0, 3 / (2 * 2)))
    slope = fitted_order([0.1, 0.2], [Estimate(1.0, 0.1, 10), Estimate(2.0, 0.4, 10)])
    expected = (1.0, math.hypot(0.1, 0.2) / math.log(2))
    assert (slope.value, slope.standard_error) == pytest.approx(expected)
