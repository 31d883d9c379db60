"""SGD against its definition: the warm-up's share of the run, momentum, decay of matrices alone."""

import copy

import pytest
import torch
from rule_cases import batch_of, tiny, training_of, weights_of

from isoloss.pretraining.descent import SGD


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.5, 0.0), (0.5, 0.1)])
def test_sgd_is_its_definition_in_float64(momentum: float, decay: float) -> None:
    model = tiny()
    oracle = copy.deepcopy(model)
    rule = SGD(learning_rate=0.1, momentum=momentum, weight_decay=decay).build(training_of(model, steps=20))
    loss_of = training_of(oracle).loss
    velocity = [torch.zeros_like(weight) for weight in oracle.parameters()]
    for step in range(1, 6):
        rule.step(batch_of(step), step)
        gradients = torch.autograd.grad(loss_of(batch_of(step)), list(oracle.parameters()))
        rate = 0.1 * min(1.0, step / 3)  # 12 % of 20 steps, rounded up
        with torch.no_grad():
            for weight, speed, gradient in zip(oracle.parameters(), velocity, gradients, strict=True):
                decayed = decay * weight if weight.ndim >= 2 else 0 * weight
                speed.mul_(momentum).add_(gradient + decayed)
                weight -= rate * speed
    torch.testing.assert_close(weights_of(model), weights_of(oracle), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("share", "steps", "expected"), [(0.12, 10_000, 1200), (0.0, 50, 0), (1.0, 50, 50)])
def test_the_warm_up_is_a_share_of_the_run(share: float, steps: int, expected: int) -> None:
    assert SGD(warm_up_share=share).descent(training_of(tiny(), steps=steps)).warm_up_steps == expected
