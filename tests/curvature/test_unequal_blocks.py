"""Blocks of unequal size weigh by their sentences: each measure against dense derivatives in float64."""

import itertools
from collections import Counter

import pytest
import ragged_batches
import torch
from dense_derivatives import dense_hessian, gradient_of, group_indices
from two_layers import FromCounts, TwoLayers

import isoloss.curvature.loss as loss_module
from isoloss.curvature.derivatives import normal_probe, sign_probe, trainable_parameters
from isoloss.curvature.gradient_norm import gradient_norm, noise_and_signal
from isoloss.curvature.hessian_top_eigenvalue import hessian_top_eigenvalue
from isoloss.curvature.hessian_trace import hessian_trace
from isoloss.curvature.local_learning_coefficient import local_learning_coefficient
from isoloss.curvature.loss import BatchLoss, LossHessian, flattened
from isoloss.curvature.loss_rise import noise_sensitivity
from isoloss.curvature.spectrum import spectral_density, top_eigenvalues
from isoloss.objectives.batch import sentences_between

OBJECTIVE = FromCounts()
SIZES = torch.tensor([3.0, 3.0, 2.0], dtype=torch.float64)


@pytest.fixture
def model():
    return TwoLayers(tokens=5).eval()


@pytest.fixture
def batches(monkeypatch):
    """Six sentences and two, whose blocks have three, three and two."""
    monkeypatch.setattr(loss_module, "BLOCKS", 2)
    six = ragged_batches.several_masks()
    return [six, sentences_between(six, 2, 4)]


def parts(batches, most):
    """The sentences of each batch, in order, in parts of `most` and one of the rest."""
    return [
        sentences_between(batch, start, start + most)
        for batch in batches
        for start in range(0, len(batch), most)
    ]


def hessians(model, some):
    parameters = trainable_parameters(model)
    return torch.stack([dense_hessian(BatchLoss(model, OBJECTIVE, part).mean, parameters) for part in some])


def gradients(model, some):
    return torch.stack([gradient_of(BatchLoss(model, OBJECTIVE, part).mean(), model) for part in some])


def over_sentences(means, sizes):
    """The mean over all sentences, and the standard error of this ratio of means."""
    value = (sizes * means).sum() / sizes.sum()
    return float(value), float((sizes * (means - value)).std() / len(means) ** 0.5 / sizes.mean())


def assert_is(estimate, expected, rel=1e-6):
    assert (estimate.value, estimate.standard_error) == pytest.approx(expected, rel=rel)


def test_the_largest_eigenvalue(model, batches):
    found = hessian_top_eigenvalue(model, batches, OBJECTIVE, tolerance=1e-7)
    v = torch.linalg.eigh(hessians(model, parts(batches, 1)).mean(0)).eigenvectors[:, -1]
    forms = hessians(model, parts(batches, 3)) @ v @ v
    assert_is(found.estimate, over_sentences(forms, SIZES))
    assert sum(group.value for group in found.groups.values()) == pytest.approx(found.estimate.value)


def test_a_directions_curvature_by_group(model, batches):
    parameters = trainable_parameters(model)
    direction = normal_probe(parameters, "any")
    found = LossHessian.in_blocks(model, batches, OBJECTIVE).curvature(direction)
    v, of_blocks = flattened(direction), hessians(model, parts(batches, 3))
    products = of_blocks @ v
    assert_is(found.whole, over_sentences(products @ v, SIZES))
    for name, places in group_indices(parameters).items():
        assert_is(found.groups[name], over_sentences(products[:, places] @ v[places], SIZES))


@pytest.mark.thorough
def test_the_largest_eigenvalues_and_the_spectrums_mean(model, batches):
    of_sentences = hessians(model, parts(batches, 1))
    values, vectors = torch.linalg.eigh(of_sentences.mean(0))
    found = top_eigenvalues(model, batches, OBJECTIVE, count=2, tolerance=1e-9)
    for place, estimate in enumerate(found.estimates, start=1):
        v = vectors[:, -place]
        assert_is(estimate, over_sentences(of_sentences @ v @ v, torch.ones(8).double()))
        assert estimate.value == pytest.approx(float(values[-place]))
    density = spectral_density(model, batches, OBJECTIVE, probes=2, seed=3)
    probes = torch.stack(
        [flattened(sign_probe(trainable_parameters(model), f"3 spectrum {probe}")) for probe in range(2)]
    )
    expected = torch.stack([probe @ of_sentences.mean(0) @ probe / len(probe) for probe in probes])
    torch.testing.assert_close(density.mean_of(lambda nodes: nodes), expected)


def u_statistic(h, sizes):
    pairs = list(itertools.permutations(range(len(h)), 2))
    products = sum(sizes[a] * sizes[b] * (h[a] @ h[b]) for a, b in pairs)
    return products / sum(sizes[a] * sizes[b] for a, b in pairs)


def covariance_trace(h, sizes):
    """The mean over blocks of w (||h||² - ||∇L||²)."""
    return (sizes * (h.square().sum(1) - u_statistic(h, sizes))).mean()


def jackknife(statistic, h, sizes):
    kept = torch.eye(len(h)).logical_not()
    without = torch.stack([statistic(h[each], sizes[each]) for each in kept])
    error = ((len(h) - 1) * without.var(correction=0)).sqrt()
    return float(statistic(h, sizes)), float(error)


def signal(h, sizes):
    return u_statistic(h, sizes) / covariance_trace(h, sizes)


def test_the_gradients_norm(model, batches):
    found = gradient_norm(model, batches, OBJECTIVE)
    h = gradients(model, parts(batches, 3))
    assert_is(found.squared, jackknife(u_statistic, h, SIZES))
    assert_is(found.noise, jackknife(covariance_trace, h, SIZES))
    assert_is(found.signal, jackknife(signal, h, SIZES))
    assert found.sentences == 8


def test_the_gradients_noise_and_signal():
    h = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1
    sizes = torch.tensor([1.0, 2.0, 3.0, 4.0, 2.0], dtype=torch.float64)
    noise, ratio = noise_and_signal(sizes, h.square().sum(1), h @ (sizes @ h))
    assert_is(noise, jackknife(covariance_trace, h, sizes))
    assert_is(ratio, jackknife(signal, h, sizes))


def test_noise_of_the_weights(model, batches):
    found = noise_sensitivity(
        model, batches, OBJECTIVE, noises=(1e-3,), scales=dict.fromkeys(trainable_parameters(model), 1.0)
    )
    assert found.sentences.tolist() == SIZES.tolist()
    draws = [flattened(normal_probe(trainable_parameters(model), f"0 noise {block}")) for block in range(3)]
    of_blocks = hessians(model, parts(batches, 3))
    forms = torch.stack([draw @ hessian @ draw for draw, hessian in zip(draws, of_blocks, strict=True)])
    assert_is(found.estimates[1e-3], over_sentences(forms / 2e6, SIZES), rel=1e-3)


def test_the_hessians_trace_and_the_probes_of_later_batches(model, batches):
    parameters, sizes = trainable_parameters(model), torch.tensor([3.0, 3.0, 1.0, 1.0], dtype=torch.float64)
    trace = hessian_trace(model, batches, OBJECTIVE, seed=5)
    assert trace.sentences.tolist() == sizes.tolist()
    residuals = []
    clusters = parts(batches[:1], 3) + parts(batches[1:], 1)
    for first, part in zip((0, 3, 6, 7), clusters, strict=True):
        dense = dense_hessian(BatchLoss(model, OBJECTIVE, part).label_surprise, parameters)
        probe = flattened(sign_probe(parameters, f"5 probe {first}"))
        residuals.append(probe @ dense @ probe)
    found = torch.stack(residuals)
    assert_is(trace.residual_estimate, over_sentences(found, sizes))
    fisher = torch.stack(list(trace.fisher.values())).sum(0)
    assert_is(trace.estimate, over_sentences(fisher + found, sizes))


@pytest.mark.thorough
def test_a_langevin_step_draws_a_part_as_often_as_it_has_sentences(model):
    passes = Counter()

    class Counting:
        def logits(self, model, batch):
            passes[len(batch)] += 1
            return OBJECTIVE.logits(model, batch)

    batch = ragged_batches.several_masks()
    batches = [ragged_batches.repeated(batch, 5), sentences_between(batch, 0, 2)]
    local_learning_coefficient(
        model, batches, Counting(), chains=2, burn_in=0, draws=80, step=1e-6, localisation=1.0
    )
    assert passes.total() == 2 + 160
    assert passes[30] > 140  # 151 on average, of a deviation of 3
