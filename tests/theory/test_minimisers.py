import pytest
import torch
from small_problems import factor_problem, matrices_of

from isoloss.errors import IsolossError
from isoloss.theory.minimisers import BiasedCoin, least_change, trace_flow


def test_newton_reaches_the_distribution_and_the_hessian_has_the_codimension_as_its_rank():
    minimisers, start = factor_problem()
    reached = minimisers.reach(start)
    assert torch.allclose(
        minimisers.logits(reached).softmax(1), minimisers.distributions.distribution, atol=1e-11
    )
    hessian = matrices_of(minimisers, reached).hessian
    assert minimisers.codimension(reached) == minimisers.distributions.codimension == 12
    assert torch.linalg.matrix_rank(hessian, rtol=1e-10) == 12
    values = torch.linalg.eigvalsh(hessian).flip(0)[:12]
    assert torch.allclose(minimisers.singular_values(reached)[:12] ** 2, values, atol=1e-12)
    assert minimisers.trace(reached) == pytest.approx(float(hessian.trace()))


def test_a_model_that_is_too_small_is_refused():
    minimisers, start = factor_problem(rank=1)
    with pytest.raises(IsolossError, match="too small"):
        minimisers.reach(start)


def test_the_gradient_along_the_minimisers_leaves_the_distribution_unchanged_to_first_order():
    minimisers, start = factor_problem()
    at = minimisers.reach(start)
    tangent = minimisers.trace_gradient(at)
    _, moved = torch.func.jvp(lambda p: minimisers.logits(p).softmax(1), (at,), (tangent,))
    assert float(moved.abs().max()) < 1e-12 * float(tangent.norm())
    assert float(tangent.norm()) > 0.1


def test_the_gradient_along_the_minimisers_is_the_change_of_the_hessians_own_trace():
    minimisers, start = factor_problem()
    at = minimisers.reach(start)
    gradient = minimisers.trace_gradient(at)
    step = 1e-4 / float(gradient.norm())

    def hessian_trace(displaced):
        on_manifold = minimisers.reach(displaced)
        return float(matrices_of(minimisers, on_manifold).hessian.trace())

    slope = (hessian_trace(at + step * gradient) - hessian_trace(at - step * gradient)) / (2 * step)
    assert slope == pytest.approx(float(gradient.square().sum()), rel=1e-6)
    everywhere = torch.func.grad(lambda p: minimisers.whitened_scores(p).square().sum())(at)
    assert float(everywhere.norm() / gradient.norm()) > 1.05  # the projection matters


@pytest.mark.parametrize("batch_size", [pytest.param(1, marks=pytest.mark.thorough), 4])
def test_the_integrated_flow_is_the_coins_closed_form(batch_size):
    coin = BiasedCoin(0.7)
    times = [0.0, 1.0, 6.0]
    flow = trace_flow(coin.minimisers, coin.minimiser(3.0), times, batch_size=batch_size)
    exact = torch.stack([coin.flow(3.0, time, batch_size) for time in times])
    assert torch.allclose(flow, exact, atol=1e-7)
    wrong = torch.stack([coin.flow(3.0, 2 * time, batch_size) for time in times])
    assert float((flow - wrong)[1:].abs().min()) > 1e-3


def test_the_flow_keeps_the_distribution_and_lowers_the_trace_at_the_stated_rate():
    minimisers, start = factor_problem()
    at = minimisers.reach(start)
    step = 1e-4
    _, later = trace_flow(minimisers, at, [0.0, step])
    assert minimisers.kl(later) < 1e-20
    slope = (minimisers.trace(later) - minimisers.trace(at)) / step
    assert slope == pytest.approx(-float(minimisers.trace_gradient(at).square().sum()) / 4, rel=1e-3)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_the_damping_of_a_least_change_is_in_units_of_the_jacobian(unit):
    jacobian = unit * torch.tensor([[3.0, 0.0, 4.0], [0.0, 5.0, 0.0]], dtype=torch.float64)
    change = unit * torch.tensor([2.0, 1.0], dtype=torch.float64)
    # J Jᵀ is 25 I, and a damping of 1/4 makes it 5/4 as large.
    expected = (jacobian.T @ change / (25 * unit**2) / 1.25).tolist()
    assert least_change(jacobian, change, 0.25).tolist() == pytest.approx(expected)
