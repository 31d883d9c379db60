"""The smoothed loss's rule against its definition, and its penalty against the dense Hessian's trace."""

import copy
import math
from dataclasses import replace

import pytest
import pytorch_optimizer
import torch
from rule_cases import OBJECTIVE, batch_of, tiny, training_of, weights_of

from isoloss.objectives.batch import Batch, sentence_averaged_loss
from isoloss.objectives.evaluation import displaced
from isoloss.pretraining.descent import SGD, AdamW, parameters_by_decay
from isoloss.pretraining.flatness_regularised import SAM, FlatnessRegularised, Sharpened, weight_noise


def test_a_pair_of_steps_has_opposite_noise_and_the_gradients_there() -> None:
    model = tiny()
    oracle = copy.deepcopy(model)
    sgd = SGD(learning_rate=0.1, warm_up_share=0.0)
    rule = FlatnessRegularised(noise=0.05, optimiser=sgd).build(training_of(model))
    parameters, loss_of = list(oracle.parameters()), training_of(oracle).loss
    for step, pair, side in ((1, 1, 0.05), (2, 1, -0.05), (3, 2, 0.05)):
        loss = rule.step(batch_of(step), step)
        with displaced(parameters, weight_noise(parameters, 0, pair), side):
            expected = loss_of(batch_of(step))
            gradients = torch.autograd.grad(expected, parameters)
        with torch.no_grad():
            for weight, gradient in zip(parameters, gradients, strict=True):
                weight -= 0.1 * gradient
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(weights_of(model), weights_of(oracle), rtol=1e-10, atol=1e-12)


def test_sharpening_descends_the_loss_less_what_noise_adds_to_it() -> None:
    model = tiny()
    oracle = copy.deepcopy(model)
    sgd = SGD(learning_rate=0.1, warm_up_share=0.0)
    rule = Sharpened((0.0, 4.0), noise=0.05, strength=2.0, smoothing=0.0, optimiser=sgd)
    running = rule.build(training_of(model))
    parameters, loss_of = list(oracle.parameters()), training_of(oracle).loss

    for step in (1, 2):
        loss = running.step(batch_of(step), step)
        here = loss_of(batch_of(step))
        torch.testing.assert_close(loss, here.detach(), rtol=1e-12, atol=0)
        strength = 2.0 * (4.0 - float(here.detach())) / 4.0
        assert running.readings()["lambda"] == pytest.approx(strength, rel=1e-12)
        noise = weight_noise(parameters, 0, step)
        own = torch.autograd.grad(here, parameters)
        sides = []
        for side in (0.05, -0.05):
            with displaced(parameters, noise, side):
                sides.append(torch.autograd.grad(loss_of(batch_of(step)), parameters))
        with torch.no_grad():
            for weight, at, above, below in zip(parameters, own, *sides, strict=True):
                weight -= 0.1 * ((1 + strength) * at - strength / 2 * (above + below))
    torch.testing.assert_close(weights_of(model), weights_of(oracle), rtol=1e-9, atol=1e-11)


def test_the_noise_is_standard_normal_and_another_for_each_pair_and_seed() -> None:
    weights = [torch.zeros(100, 200), torch.zeros(300)]
    draws = [
        torch.cat([piece.flatten() for piece in weight_noise(weights, *key)])
        for key in ((0, 1), (0, 2), (1, 1))
    ]
    for draw in draws:
        assert abs(draw.mean()) < 4 / 20_300**0.5
        assert abs(draw.var() - 1) < 4 * (2 / 20_300) ** 0.5
    correlations = torch.corrcoef(torch.stack(draws)) - torch.eye(3)
    assert correlations.abs().max() < 4 / 20_300**0.5


ADAMW = AdamW(learning_rate=0.01, warm_up_steps=0)


def loss_on(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    return sentence_averaged_loss(OBJECTIVE.logits(model, batch), batch)


def doubled(batch: Batch) -> Batch:
    n = len(batch)
    return Batch(
        torch.cat([batch.input_ids] * 2),
        torch.cat([batch.attention_mask] * 2),
        torch.cat([batch.rows, batch.rows + n]),
        torch.cat([batch.positions] * 2),
        torch.cat([batch.targets] * 2),
    )


def test_the_second_half_alone_updates_from_where_the_first_half_ascends() -> None:
    model = tiny()
    oracle, start = copy.deepcopy(model), weights_of(model)
    rule = SAM(rho=0.3, optimiser=SGD(learning_rate=0.1, warm_up_share=0.0)).build(training_of(model))
    batch = batch_of(1, batch_size=7)
    loss = rule.step(batch, 1)

    first, second = batch.part(0, 3), batch.part(3, 7)
    parameters = list(oracle.parameters())
    before = loss_on(oracle, first)
    ascent = torch.autograd.grad(before, parameters)
    norm = torch.cat([gradient.flatten() for gradient in ascent]).norm()
    with displaced(parameters, list(ascent), float(0.3 / norm)):
        update = torch.autograd.grad(loss_on(oracle, second), parameters)
    assert loss.item() == before.item()
    for weight, origin, gradient in zip(weights_of(model), start, update, strict=True):
        torch.testing.assert_close(weight, origin - 0.1 * gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_with_equal_halves_it_is_pytorch_optimizers(name: str) -> None:
    model = tiny()
    peer_model = copy.deepcopy(model)
    groups = parameters_by_decay(peer_model, 0.01)
    if name == "AdamW":
        settings = SAM(rho=0.05, optimiser=ADAMW)
        peer = pytorch_optimizer.SAM(
            groups, torch.optim.AdamW, rho=0.05, lr=0.01, betas=(0.9, 0.98), eps=1e-6
        )
    else:
        settings = SAM(rho=0.05, optimiser=SGD(learning_rate=0.1, warm_up_share=0.0, momentum=0.9))
        peer = pytorch_optimizer.SAM(peer_model.parameters(), torch.optim.SGD, rho=0.05, lr=0.1, momentum=0.9)
    rule = settings.build(training_of(model))
    for step in range(1, 5):
        batch = batch_of(step, batch_size=8)
        rule.step(doubled(batch), step)
        loss_on(peer_model, batch).backward()
        peer.first_step(zero_grad=True)
        loss_on(peer_model, batch).backward()
        peer.second_step(zero_grad=True)
    # The peer takes the gradient's norm in float32.
    torch.testing.assert_close(weights_of(model), weights_of(peer_model), rtol=1e-6, atol=1e-7)


class Constant(torch.nn.Module):
    """Scores that do not depend on its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(5))

    def logits(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        return 0.0 * model.weight.expand(len(batch.rows), 5)


def test_a_gradient_of_zero_moves_nothing() -> None:
    model = Constant()
    rule = SAM(optimiser=SGD(warm_up_share=0.0)).build(replace(training_of(model), objective=model))
    assert rule.step(batch_of(1), 1).item() == pytest.approx(math.log(5))
    assert torch.equal(model.weight, torch.ones(5))
