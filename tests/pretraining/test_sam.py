"""SAM in halves against its definition, and against pytorch-optimizer's SAM where the two agree."""

import copy
import math
from dataclasses import replace

import pytest
import pytorch_optimizer
import torch
from rule_cases import OBJECTIVE, batch_of, tiny, training_of, weights_of

from isoloss.objectives.batch import Batch, sentence_averaged_loss
from isoloss.pretraining.adamw import AdamW, parameters_by_decay
from isoloss.pretraining.flatness_regularised import SAM
from isoloss.pretraining.sgd import SGD

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
    with torch.no_grad():
        for weight, gradient in zip(parameters, ascent, strict=True):
            weight += 0.3 * gradient / norm
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
