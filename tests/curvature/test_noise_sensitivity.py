import copy
from dataclasses import replace

import pytest
import ragged_batches
import torch
from dense_derivatives import dense_hessian, flat
from two_layers import FromCounts, TwoLayers

from isoloss.curvature.derivatives import normal_probe, trainable_parameters
from isoloss.curvature.fisher_trace import normalised_trace
from isoloss.curvature.loss import BatchLoss
from isoloss.curvature.loss_rise import NOISES, noise_sensitivity, tensor_scales
from isoloss.errors import BadInput
from isoloss.measurements.fixed_sentences import FixedSentences
from isoloss.measurements.on_sentences.loss_rise import NoiseSensitivityQuantity
from isoloss.measurements.quantity import Subject
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.objectives.batch import sentences_between
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import silent
from isoloss.results.estimate import mean_over_members
from tiny_models import partly_frozen, tiny_model

OBJECTIVE = MaskedObjective()


@pytest.fixture
def model():
    return tiny_model(PreLayerNormTransformer, ragged_batches.WORDS, ragged_batches.LENGTH)


def scaled_by_tensor(model, scales):
    """Each number's own scale, in the order of the flat vector of parameters."""
    return flat([torch.full_like(p, scales[name]) for name, p in trainable_parameters(model).items()])


def test_each_draws_rise_is_its_quadratic_form(model):
    """Small noise: ε·H_b ε σ²/2 of the block's own Hessian, odd orders cancelling in the pair."""
    batch = ragged_batches.several_masks()
    partly_frozen(model, "layer.1.output", "layer.0.attention.output").eval()
    parameters, scales = trainable_parameters(model), tensor_scales(model)
    found = noise_sensitivity(model, [batch], OBJECTIVE, noises=(1e-3,), seed=4)
    assert found.sentences.tolist() == [1] * 6
    for i in range(6):
        part = sentences_between(batch, i, i + 1)
        hessian = dense_hessian(BatchLoss(model, OBJECTIVE, part).mean, parameters)
        draw = flat(normal_probe(parameters, f"4 noise {i}").values()) * scaled_by_tensor(model, scales)
        assert float(found.rises[1e-3][i]) == pytest.approx(float(draw @ hessian @ draw) / 2e6, rel=1e-3)


@pytest.mark.thorough
def test_under_the_models_own_distribution_it_is_the_normalised_trace():
    """Where the Hessian is the Fisher information (Lemma 3.2), two measures that share no code agree."""
    model, batch = TwoLayers(tokens=5), ragged_batches.one_mask()
    own = replace(batch, soft_targets=FromCounts().logits(model, batch).softmax(1).detach())
    noise = noise_sensitivity(model, [own] * 100, FromCounts(), noises=(1e-3,)).estimates[1e-3]
    trace = normalised_trace(model, [batch] * 30, FromCounts()).estimate
    assert noise.n >= 64
    error = (noise.standard_error**2 + (trace.standard_error / 2e6) ** 2) ** 0.5
    assert abs(noise.value - trace.value / 2e6) < 4 * error
    assert error < 0.15 * noise.value


@pytest.mark.slow
def test_the_error_bar_is_that_over_draws_and_sentences():
    """For independent sets of sentences and draws, the standard deviation of the estimates is the error."""
    model, pool = TwoLayers(tokens=5), ragged_batches.one_mask()
    generator, estimates = torch.Generator().manual_seed(0), []
    for seed in range(40):
        drawn = torch.randint(0, len(pool), (10,), generator=generator)
        batches = [sentences_between(pool, i, i + 1) for i in drawn.tolist()]
        found = noise_sensitivity(model, batches, FromCounts(), noises=(0.1,), seed=seed)
        estimates.append(found.estimates[0.1])
    deviation = float(torch.tensor([estimate.value for estimate in estimates]).std())
    errors = torch.tensor([estimate.standard_error for estimate in estimates])
    # The standard deviation of 40 numbers is known within 11 %: three times that.
    assert float(errors.square().mean().sqrt()) == pytest.approx(deviation, rel=0.33)


@pytest.mark.thorough
def test_draws_are_those_of_the_seed(model):
    batch = ragged_batches.several_masks()
    found = noise_sensitivity(model, [batch], OBJECTIVE, seed=2)
    assert tuple(found.rises) == NOISES
    again = noise_sensitivity(model, [batch], OBJECTIVE, noises=(0.03,), seed=2)
    assert torch.equal(again.rises[0.03], found.rises[0.03])
    other = noise_sensitivity(model, [batch], OBJECTIVE, noises=(0.03,), seed=3)
    assert not torch.isclose(other.rises[0.03], found.rises[0.03]).any()


@pytest.mark.thorough
def test_differences_of_models_share_their_draws_and_records_hold_every_noise(model):
    nearby = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in nearby.parameters():
            parameter *= 1.01
    batches = [ragged_batches.one_mask()] * 2
    noises = (0.01, 0.1)
    found, reference = (
        noise_sensitivity(each, batches, OBJECTIVE, noises=noises) for each in (model, nearby)
    )
    for noise, rises in found.rises.items():
        difference = mean_over_members(rises - reference.rises[noise], found.sentences)
        assert difference.standard_error < 0.5 * found.estimates[noise].standard_error
    quantity, drawn = NoiseSensitivityQuantity(noises, 12, 0, own=True), FixedSentences(tuple(batches))
    records = quantity.measure(model, drawn, Subject("step-3", OBJECTIVE, {"step": 3}, None), silent).records
    assert [(r.quantity, r.settings["noise"], r.n, r.settings["sentences"]) for r in records] == [
        ("noise_sensitivity", noise, 12, 12) for noise in noises
    ]
    assert records[1].value == found.estimates[0.1].value


def test_what_cannot_be_measured_is_refused():
    model = tiny_model(PreLayerNormTransformer, ragged_batches.WORDS, ragged_batches.LENGTH)
    batch = ragged_batches.one_mask()
    with pytest.raises(BadInput, match="noises must be positive numbers"):
        noise_sensitivity(model, [batch], OBJECTIVE, noises=(-0.1,))
    with pytest.raises(BadInput, match=r"no scale for .*; take the scales of a model of this shape"):
        noise_sensitivity(model, [batch], OBJECTIVE, scales={})
