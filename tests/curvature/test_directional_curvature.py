"""Curvature along updates and small batches' gradients, against dense Hessians in float64."""

import copy

import pytest
import ragged_batches
import torch
from dense_derivatives import dense_hessian, flat, gradient_of, group_indices
from functions_of_weights import Function, sentences

from isoloss.curvature.critical_sharpness import critical_sharpness
from isoloss.curvature.derivatives import trainable_parameters, unflattened
from isoloss.curvature.directional_curvature import batch_sharpness, directional_sharpness
from isoloss.curvature.loss import BatchLoss
from isoloss.curvature.weight_changes import Replacement, differences
from isoloss.errors import BadInput
from isoloss.objectives.batch import sentences_between
from isoloss.objectives.evaluation import displaced
from isoloss.objectives.masked import MaskedObjective
from thorough_cases import others_thorough
from tiny_models import ARCHITECTURES, far_from_the_start, partly_frozen, tiny_model

OBJECTIVE = MaskedObjective()


def model_and_batch(architecture):
    model = tiny_model(architecture, ragged_batches.WORDS, ragged_batches.LENGTH)
    return partly_frozen(model, "layer.0.output", "layer.1.attention.output"), ragged_batches.several_masks()


def derivatives(model, batch, first=0):
    """The flat gradient and the dense Hessian of the mean loss."""
    model = copy.deepcopy(model).eval()
    loss = BatchLoss(model, OBJECTIVE, batch, first).mean
    return gradient_of(loss(), model), dense_hessian(loss, trainable_parameters(model))


def rises_along(model, batch, direction):
    """Of each sentence's loss after a step against the flat `direction`, as a function of its length."""
    model = copy.deepcopy(model).eval()
    parameters = trainable_parameters(model)
    weights, steps = list(parameters.values()), list(unflattened(direction, parameters).values())
    at_rest = BatchLoss(model, OBJECTIVE, batch).values()

    def rises(rate):
        with displaced(weights, steps, -rate):
            return BatchLoss(model, OBJECTIVE, batch).values() - at_rest

    return rises


@pytest.mark.parametrize("architecture", others_thorough(ARCHITECTURES))
def test_batch_sharpness_is_the_mean_of_each_batchs_own_curvature(architecture):
    model, batch = model_and_batch(architecture)
    expected = []
    for start in (0, 2, 4):
        g, h = derivatives(model, sentences_between(batch, start, start + 2), start)
        expected.append(float(g @ h @ g / g.square().sum()))
    expected = torch.tensor(expected, dtype=torch.float64)
    found = batch_sharpness(model, [batch], OBJECTIVE, batch=2)
    assert found.estimate.value == pytest.approx(float(expected.mean()), rel=1e-9)
    assert found.estimate.standard_error == pytest.approx(float(expected.std()) / 3**0.5, rel=1e-9)
    assert (found.estimate.n, found.sentences) == (3, 6)
    in_twos = batch_sharpness(model, [sentences_between(batch, 0, 5)], OBJECTIVE, batch=2)
    assert in_twos.estimate.value == pytest.approx(float(expected[:2].mean()), rel=1e-9)


@pytest.mark.parametrize("architecture", others_thorough(ARCHITECTURES))
def test_directional_sharpness_along_the_gradient_and_towards_another_model(architecture):
    model, batch = model_and_batch(architecture)
    g, h = derivatives(model, batch)
    other = far_from_the_start(copy.deepcopy(model), by=0.1, seed=5)
    towards = differences(model, Replacement.by(other, "other"))
    of_sentences = [derivatives(model, sentences_between(batch, i, i + 1), i)[1] for i in range(len(batch))]
    for direction, v in ((None, g), (towards, flat(towards.values()))):
        found = directional_sharpness(model, [batch], OBJECTIVE, direction=direction)
        assert found.norm == pytest.approx(float(v.norm()))
        assert found.estimate.value == pytest.approx(float(v @ h @ v / v.square().sum()), rel=1e-9)
        assert sum(each.value for each in found.groups.values()) == pytest.approx(found.estimate.value)
        for name, places in group_indices(trainable_parameters(model)).items():
            part = float(v[places] @ (h @ v)[places] / v.square().sum())
            assert found.groups[name].value == pytest.approx(part, rel=1e-8, abs=1e-12)
        forms = [v @ of_sentence @ v / v.square().sum() for of_sentence in of_sentences]
        error = float(torch.stack(forms).std()) / len(batch) ** 0.5
        assert found.estimate.standard_error == pytest.approx(error, rel=1e-7)
    of_other = trainable_parameters(other)
    with_gradients = {name: of_other[name] - here for name, here in trainable_parameters(model).items()}
    again = directional_sharpness(model, [batch], OBJECTIVE, direction=with_gradients)
    assert again.estimate.value == pytest.approx(found.estimate.value)


@pytest.mark.parametrize("architecture", ARCHITECTURES[:1])
def test_relative_critical_sharpness_is_where_a_scan_finds_that_the_first_loss_rises(architecture):
    model, batch = model_and_batch(architecture)
    measured, optimised = sentences_between(batch, 2, 6), sentences_between(batch, 0, 3)
    found = critical_sharpness(model, [measured], OBJECTIVE, along=[optimised])
    rate = found.learning_rate
    rises = rises_along(model, measured, derivatives(model, optimised)[0])
    scan = [share * rate for share in torch.linspace(0.05, 0.98, 12).tolist()]
    assert all(float(rises(each).mean()) <= 0 for each in scan)
    assert float(rises(1.015 * rate).mean()) > 0
    assert found.estimate.value == pytest.approx(2 / rate)
    assert found.estimate.n == 4
    same = critical_sharpness(model, [measured], OBJECTIVE, along=[measured])
    assert same.estimate == critical_sharpness(model, [measured], OBJECTIVE).estimate


def test_data_sets_at_odds_are_told():
    model, batch = model_and_batch(ARCHITECTURES[0])
    sentence = sentences_between(batch, 0, 2)
    opposite = copy.copy(sentence)
    object.__setattr__(opposite, "targets", 2 * sentence.targets.min() + 1 - sentence.targets)
    g, _ = derivatives(model, sentence)
    other, _ = derivatives(model, opposite)
    assert float(g @ other) < 0
    with pytest.raises(BadInput, match="point apart"):
        critical_sharpness(model, [sentence], OBJECTIVE, along=[opposite])
    with pytest.raises(BadInput, match="no sentences to take the step along"):
        critical_sharpness(model, [sentence], OBJECTIVE, along=[])


def test_directions_and_batches_that_make_no_sense_are_refused():
    model, batch = model_and_batch(ARCHITECTURES[0])
    name = next(iter(trainable_parameters(model)))
    with pytest.raises(BadInput, match="two batches of 4"):
        batch_sharpness(model, [batch], OBJECTIVE, batch=4)
    with pytest.raises(BadInput, match="has no length"):
        directional_sharpness(model, [batch], OBJECTIVE, direction={name: 0 * model.get_parameter(name)})
    for wrong in ({"missing": torch.ones(2)}, {name: torch.ones(1)}):
        with pytest.raises(BadInput, match="that the model lacks"):
            directional_sharpness(model, [batch], OBJECTIVE, direction=wrong)


@pytest.mark.thorough
def test_progress_is_reported_within_the_pass_of_double_backwards():
    model = tiny_model(ARCHITECTURES[0], ragged_batches.WORDS, ragged_batches.LENGTH)
    told = []
    directional_sharpness(
        model,
        [ragged_batches.several_masks(), ragged_batches.one_mask()],
        OBJECTIVE,
        progress=lambda task, done, total, *_: told.append((task, done / total)),
    )
    shares = [share for _, share in told]
    assert {task for task, _ in told} == {"directional sharpness"}
    assert shares == sorted(shares)
    assert len({share for share in shares if 0.5 <= share < 1}) > 1
    assert shares[-1] == 1


@pytest.mark.parametrize("architecture", others_thorough(ARCHITECTURES))
def test_the_critical_rate_is_where_a_scan_finds_that_the_loss_rises(architecture):
    model = tiny_model(architecture, ragged_batches.WORDS, ragged_batches.LENGTH)
    batch = ragged_batches.several_masks()
    shares = []
    found = critical_sharpness(
        model, [batch], OBJECTIVE, progress=lambda _, done, total, *__: shares.append(done / total)
    )
    assert shares == sorted(shares)
    assert (len(shares), shares[-1]) == (found.passes, 1)
    rate = found.learning_rate
    rises = rises_along(model, batch, gradient_of(BatchLoss(model.eval(), OBJECTIVE, batch).mean(), model))
    assert found.estimate.value == pytest.approx(2 / rate)
    scan = [rate * share for share in torch.linspace(0.02, 1.0, 50).tolist()]
    assert all(float(rises(each).mean()) <= 0 for each in scan if each < 0.985 * rate)
    assert float(rises(1.015 * rate).mean()) > 0
    slope = float((rises(1.01 * rate) - rises(0.99 * rate)).mean()) / (0.02 * rate)
    error = float(rises(rate).std()) / len(batch) ** 0.5 / slope
    assert found.estimate.standard_error == pytest.approx(2 / rate**2 * error, rel=0.1)


def test_a_rise_long_before_the_first_rate_that_is_tried_is_found():
    """At that rate the loss is lower again, but by far less than its gradient says."""

    def waves(w):
        return 0.05 * (150 * w).sin() + 0.1 * w

    model = Function(lambda w: waves(w).sum(), [0.0])
    found = critical_sharpness(model, [sentences(3)], model)
    slope = 150 * 0.05 + 0.1
    rates = torch.linspace(0, 0.2, 200_001, dtype=torch.float64)
    rises = waves(-rates[:4000] * slope)
    first = float(rates[1:4000][rises[1:] > 0][0])
    assert float(waves(torch.tensor(-0.1 * slope))) < 0
    assert first < 0.003
    assert found.learning_rate == pytest.approx(first, rel=0.01)


def test_a_rise_that_ends_before_the_next_doubling_is_found():
    """Beyond it the loss is lower than ever, so that a search upwards from its lowest point would miss it."""

    def ridge(rate):
        falls = 0.01 * rate * (rate / 10 - 1) - 0.1 * rate * (-2 * rate).exp()
        return falls + 0.4 * (-((rate - 2.4) / 0.25).square()).exp()

    # After a step along the gradient at 0, which is the root of 0.11.
    model = Function(lambda w: ridge(-w.sum() / 0.11**0.5), [0.0])
    found = critical_sharpness(model, [sentences(3)], model)
    rates = torch.linspace(0, 20, 20_001, dtype=torch.float64)
    rises = ridge(rates)
    assert float(rises[[1600, 3200, 6400]].max()) < 0
    first = float(rates[1:][rises[1:] > 0][0])
    assert found.learning_rate == pytest.approx(first, rel=0.01)


def test_a_loss_that_no_step_raises_or_that_rounding_hides_is_told():
    falling = Function(lambda w: 0.4 * w.tanh().sum(), [0.0])
    with pytest.raises(BadInput, match="no step along the gradient raises the loss, however long"):
        critical_sharpness(falling, [sentences(3)], falling)
    kink = Function(lambda w: (w + 2 * w.abs()).sum(), [0.0])
    with pytest.raises(BadInput, match="by less than half of what the gradient says"):
        critical_sharpness(kink, [sentences(3)], kink)
