"""The local learning coefficient of functions whose sampled density can be integrated exactly."""

import math

import pytest
import ragged_batches
import torch
from functions_of_weights import Function, sentences

from isoloss.curvature.derivatives import MeasuredParameters
from isoloss.curvature.local_learning_coefficient import LocalLearningCoefficient, local_learning_coefficient
from isoloss.errors import BadInput
from isoloss.objectives.masked import MaskedObjective
from thorough_cases import others_thorough
from tiny_models import ARCHITECTURES, tiny_model


def exact(of, cold, localisation, reach=2.0, points=1601):
    """nβ E[L] under the density exp(-nβ L - γ/2 |w|²) of two weights, by summing over a grid."""
    axis = torch.linspace(-reach, reach, points, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="ij"))
    losses = of(grid)
    log_density = -cold * losses - localisation / 2 * grid.square().sum(0)
    density = (log_density - log_density.max()).exp()
    return cold * float((density * losses).sum() / density.sum())


def test_of_a_regular_minimum_it_is_half_the_parameters():
    curvatures = torch.tensor([2.0, 2.5, 3.0, 3.5, 4.0, 4.5], dtype=torch.float64)
    model = Function(lambda w: 0.5 * (curvatures * w.square()).sum(), [0.0] * 6)
    found = local_learning_coefficient(
        model, [sentences(64)], model, chains=8, burn_in=40, draws=80, localisation=0.05
    )
    cold = 64 / math.log(64)
    expected = float((cold * curvatures / (cold * curvatures + 0.05)).sum()) / 2
    assert found.inverse_temperature == pytest.approx(cold)
    assert expected == pytest.approx(3, rel=0.01)
    # The step is finite: the variance along λ is 1 / (1 - ε (nβλ + γ) / 4) times too large.
    sampled = cold * curvatures + 0.05
    expected = 0.5 * float((cold * curvatures / sampled / (1 - found.step * sampled / 4)).sum())
    assert expected == pytest.approx(3, rel=0.06)
    assert abs(found.estimate.value - expected) < 4 * found.estimate.standard_error
    assert found.estimate.standard_error < 0.1 * expected
    assert found.warning is None
    assert float(model.weight.detach().abs().max()) == 0


@pytest.mark.slow
def test_of_a_singular_minimum_it_is_less():
    def crossing(w):
        return (w[0] * w[1]).square()

    model = Function(crossing, [0.0, 0.0])
    n, localisation = 400, 10.0
    found = local_learning_coefficient(
        model, [sentences(n)], model, chains=8, burn_in=60, draws=300, localisation=localisation, step=0.005
    )
    expected = exact(crossing, n / math.log(n), localisation)
    assert abs(found.estimate.value - expected) < 4 * found.estimate.standard_error + 0.05 * expected
    assert found.estimate.standard_error < 0.15 * expected
    # It goes to 1/2, not to the 1 of a regular minimum of two parameters, by about 1 / log n.
    near, nearer = (exact(crossing, cold, localisation) for cold in (1e3, 1e5))
    assert expected < near < nearer < 0.5
    assert nearer > 0.3


def test_away_from_a_minimum_it_is_negative_and_says_so():
    model = Function(lambda w: 0.5 * w.square().sum(), [3.0, 0.0])
    found = local_learning_coefficient(
        model, [sentences(64)], model, localisation=1.0, chains=2, burn_in=5, draws=20
    )
    assert found.estimate.value < 0
    assert "negative" in found.warning


def test_progress_is_reported_within_a_chain():
    model, shares = Function(lambda w: 0.5 * w.square().sum(), [0.0, 0.0]), []
    local_learning_coefficient(
        model,
        [sentences(8)],
        model,
        step=0.01,
        chains=2,
        burn_in=5,
        draws=20,
        progress=lambda _, done, total, *__: shares.append(done / total),
    )
    assert shares == sorted(shares)
    assert (len(set(shares)), shares[-1]) == (51, 1)


def test_chains_that_run_away_are_told_or_refused():
    model = Function(lambda w: 4 * w.square().sum() / (1 + w.square().sum()), [0.0] * 2)
    far = local_learning_coefficient(
        model, [sentences(64)], model, localisation=1e-4, step=0.5, burn_in=0, draws=100
    )
    assert "run away" in far.warning
    steep = Function(lambda w: w.square().sum(), [0.0] * 2)
    with pytest.raises(BadInput, match=r"ran away after \d+ steps of 5: its scores are not finite"):
        local_learning_coefficient(steep, [sentences(64)], steep, step=5.0)
    assert float(steep.weight.detach().abs().max()) == 0


@pytest.mark.thorough
def test_chains_that_have_not_settled_are_told():
    model = Function(lambda w: 0.5 * w.square().sum(), [0.0] * 40)
    found = local_learning_coefficient(
        model, [sentences(64)], model, localisation=1.0, step=5e-4, burn_in=0, draws=200
    )
    assert found.drift.value > 0
    assert "not settled" in found.warning


@pytest.mark.parametrize("sign", [1, -1])
def test_a_drift_either_way_is_told(sign):
    by_chain, drifts = (torch.tensor(values, dtype=torch.float64) for values in ((9.9, 10.1), (3.9, 4.1)))
    found = LocalLearningCoefficient(by_chain, sign * drifts, 10.0, 0.1, 1.0, 64, MeasuredParameters(99, ()))
    assert f"changed by {4 * sign}" in found.warning


def by_chain(**settings):
    model = Function(lambda w: 0.5 * w.square().sum(), [0.0] * 3)
    return local_learning_coefficient(model, [sentences(64)], model, chains=2, step=0.01, **settings).by_chain


def test_the_first_steps_are_not_counted():
    """The mean over six draws is that over the first four and over those after a burn-in of four."""
    whole, first, later = (
        by_chain(burn_in=burn_in, draws=draws) for burn_in, draws in ((0, 6), (0, 4), (4, 2))
    )
    torch.testing.assert_close(6 * whole, 4 * first + 2 * later)


def test_another_seed_has_other_chains_and_so_has_every_chain():
    one, other = (by_chain(burn_in=0, draws=3, seed=seed) for seed in (4, 5))
    assert len(torch.cat([one, other]).unique()) == 4


@pytest.mark.parametrize("architecture", others_thorough(ARCHITECTURES))
def test_a_seed_determines_the_number_of_a_transformer(architecture):
    model = tiny_model(architecture, ragged_batches.WORDS, ragged_batches.LENGTH)
    settings = {"chains": 2, "burn_in": 2, "draws": 3}
    batch = ragged_batches.several_masks()
    one, two = (
        local_learning_coefficient(model, [batch], MaskedObjective(), seed=seed, **settings)
        for seed in (4, 4)
    )
    assert torch.equal(one.by_chain, two.by_chain)
    for wrong in ({"chains": 1}, {"localisation": 0.0}, {"step": -1.0}):
        with pytest.raises(BadInput):
            local_learning_coefficient(model, [batch], MaskedObjective(), **wrong)


@pytest.mark.slow
def test_it_changes_when_two_factors_are_rescaled_unless_the_localisation_is_weak():
    """Of ½(w v - 1)², which is ½(w v / a · a - 1)², at (1, 1) and at (10, 1/10)."""

    def product(w):
        return 0.5 * (w[0] * w[1] - 1).square()

    found = {}
    for scale in (1.0, 10.0):
        model = Function(product, [scale, 1 / scale])
        one = local_learning_coefficient(model, [sentences(64)], model, chains=8, burn_in=30, draws=150)
        pulled = one.inverse_temperature * (scale**2 + scale**-2)
        expected = 0.5 * pulled / (pulled + one.localisation)
        assert abs(one.estimate.value - expected) < 4 * one.estimate.standard_error + 0.1 * expected
        found[scale] = one.estimate.value
    assert found[10.0] > 2 * found[1.0]
