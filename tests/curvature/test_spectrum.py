"""The largest eigenvalues and the density of the spectrum against dense Hessians in float64."""

from dataclasses import replace

import pytest
import ragged_batches
import torch
from dense_derivatives import decomposed, dense_hessian, partly_trained
from two_layers import FromCounts, TwoLayers

from isoloss.curvature.derivatives import MeasuredParameters, trainable_parameters
from isoloss.curvature.loss import BatchLoss
from isoloss.curvature.spectrum import SpectralDensity, quadrature, spectral_density, top_eigenvalues
from isoloss.errors import BadInput
from isoloss.objectives.masked import MaskedObjective
from isoloss.results.estimate import sample_mean
from thorough_cases import others_thorough
from tiny_models import ARCHITECTURES

OBJECTIVE = MaskedObjective()


@pytest.mark.thorough
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_largest_eigenvalues_and_their_errors(architecture):
    model, batch = partly_trained(architecture), ragged_batches.several_masks()
    found = top_eigenvalues(model, [batch], OBJECTIVE, count=4, tolerance=1e-9)
    values, vectors, by_sentence = decomposed(architecture)
    for place, (estimate, residual) in enumerate(zip(found.estimates, found.residuals, strict=True)):
        v = vectors[:, -1 - place]
        forms = torch.stack([v @ hessian @ v for hessian in by_sentence])
        assert estimate.value == pytest.approx(float(values[-1 - place]), rel=1e-7)
        assert estimate.standard_error == pytest.approx(float(forms.std()) / len(forms) ** 0.5, rel=1e-4)
        assert residual < 1e-6
    assert found.products >= 20


def two_layers():
    return TwoLayers(tokens=5), FromCounts()


def transformer():
    return partly_trained(ARCHITECTURES[0]), OBJECTIVE


@pytest.mark.parametrize(
    ("network", "probes", "steps"), others_thorough([(two_layers, 24, 8), (transformer, 12, 24)])
)
def test_the_density_and_what_follows_from_it(network, probes, steps):
    (model, objective), batch = network(), ragged_batches.several_masks()
    found = spectral_density(model, [batch], objective, probes=probes, steps=steps)
    loss = BatchLoss(model.eval(), objective, batch).mean
    values = torch.linalg.eigvalsh(dense_hessian(loss, trainable_parameters(model)))
    torch.testing.assert_close(found.weights.sum(dim=1), torch.ones(probes).double())
    assert len(found.nodes.unique(dim=0)) == probes
    square = sample_mean(found.mean_of(torch.square))
    assert abs(square.value - float(values.square().mean())) < 4 * square.standard_error
    width = float(values[-1] - values[0]) / 20
    for at in torch.linspace(float(values[0]), float(values[-1]), 9).tolist():
        expected = (-0.5 * ((values - at) / width).square()).exp().mean() / (width * (2 * torch.pi) ** 0.5)
        density = found.density(at, width)
        assert abs(density.value - float(expected)) < 4 * density.standard_error + 1e-9
    negative = float((-values).clamp(min=0).sum() / values.abs().sum())
    rank = float(values.abs().sum().square() / values.square().sum())
    for estimate, expected in ((found.negative_curvature, negative), (found.effective_rank, rank)):
        assert abs(estimate.value - expected) < 4 * estimate.standard_error
        assert estimate.standard_error < 0.3 * expected


def quadratures_of(values, steps, probes=8):
    generator = torch.Generator().manual_seed(1)
    starts = torch.randn(probes, len(values), generator=generator, dtype=torch.float64)
    nodes, weights = zip(*(quadrature(values.mul, start, steps) for start in starts), strict=True)
    parameters = MeasuredParameters(len(values), ())
    return SpectralDensity(torch.stack(nodes), torch.stack(weights), probes * steps, 2, parameters)


@pytest.mark.parametrize("steps", others_thorough([10, 20, 40], quick=2))
def test_too_few_steps_for_eigenvalues_near_zero_are_in_the_error(steps):
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(4000, generator=generator, dtype=torch.float64).abs() ** 3
    values[::3] *= -1
    found = quadratures_of(values, steps)
    rank = float(values.abs().sum().square() / values.square().sum())
    negative = float((-values).clamp(min=0).sum() / values.abs().sum())
    for estimate, expected in ((found.effective_rank, rank), (found.negative_curvature, negative)):
        assert abs(estimate.value - expected) < 2 * estimate.standard_error < 2 * expected


def test_one_step_fewer_is_what_that_many_find_unless_the_steps_are_exact():
    values = torch.linspace(-1, 2, 30, dtype=torch.float64) ** 3
    fewer = quadratures_of(values, 12).one_step_fewer
    expected = quadratures_of(values, 11)
    torch.testing.assert_close(fewer.nodes, expected.nodes)
    torch.testing.assert_close(fewer.weights, expected.weights)
    exact = quadratures_of(values[::3], 10)
    assert exact.one_step_fewer is exact
    repeated = replace(exact, nodes=torch.tensor([[3.0, 0, 0]] * 8), weights=torch.tensor([[1.0, 0, 0]] * 8))
    assert repeated.effective_rank.standard_error == 0


def test_a_probes_quadrature_is_exact_for_polynomials_below_twice_its_steps():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(50, 50, generator=generator, dtype=torch.float64)
    a = (a + a.T) / 10
    start = torch.randn(50, generator=generator, dtype=torch.float64)
    nodes, weights = quadrature(a.mv, start, steps=6)
    unit = start / start.norm()
    power = unit
    for degree in range(12):
        assert float((weights * nodes**degree).sum()) == pytest.approx(float(unit @ power), rel=1e-9)
        power = a @ power


def test_a_small_budget_takes_fewer_steps_and_repeated_eigenvalues_end_a_process():
    (model, objective), batch = two_layers(), ragged_batches.one_mask()
    assert spectral_density(model, [batch], objective, probes=2, basis_bytes=1).nodes.shape == (2, 8)
    nodes, weights = quadrature(lambda vector: 3 * vector, torch.ones(9).double(), steps=5)
    assert (nodes.tolist(), weights.tolist()) == ([3.0], [1.0])


def test_numbers_that_make_no_sense_are_refused():
    model, batch = partly_trained(ARCHITECTURES[0]), ragged_batches.one_mask()
    count = sum(p.numel() for p in trainable_parameters(model).values())
    for wrong in (0, count):
        with pytest.raises(BadInput, match="eigenvalues cannot be found"):
            top_eigenvalues(model, [batch], OBJECTIVE, count=wrong)
    for few, of in ({"probes": 1}, "1 probes of 40 steps"), ({"steps": 1}, "8 probes of 1 steps"):
        with pytest.raises(BadInput, match=of):
            spectral_density(model, [batch], OBJECTIVE, **few)
