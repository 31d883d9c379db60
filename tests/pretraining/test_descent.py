"""AdamW and SGD against their definitions, which parameters decay, and how their rates go."""

import copy

import pytest
import torch
from rule_cases import batch_of, gradients_of, tiny, training_of, weights_of
from transformers import get_linear_schedule_with_warmup

from isoloss.errors import BadInput
from isoloss.pretraining.descent import SGD, AdamW, Descent, warmed_up


def test_adamw_is_the_textbooks_in_float64() -> None:
    """Loshchilov and Hutter 2019, algorithm 2, written out; decay on matrices only."""
    settings = AdamW(learning_rate=0.01, warm_up_steps=2, epsilon=1e-6, weight_decay=0.5)
    model = tiny()
    rule = settings.build(training_of(model))
    oracle = copy.deepcopy(model)
    first = {name: torch.zeros_like(weight) for name, weight in oracle.named_parameters()}
    second = copy.deepcopy(first)
    for step in range(1, 5):
        rule.step(batch_of(step), step)
        gradients = gradients_of(oracle, step)
        rate = 0.01 * min(1, step / 2)
        with torch.no_grad():
            for (name, weight), gradient in zip(oracle.named_parameters(), gradients, strict=True):
                first[name] = 0.9 * first[name] + 0.1 * gradient
                second[name] = 0.98 * second[name] + 0.02 * gradient**2
                corrected = first[name] / (1 - 0.9**step)
                scale = (second[name] / (1 - 0.98**step)).sqrt() + 1e-6
                decay = 0.5 if weight.ndim == 2 else 0.0
                weight -= rate * (corrected / scale + decay * weight)
    for (name, weight), expected in zip(model.named_parameters(), oracle.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=1e-9, atol=1e-12, msg=name)


def test_every_parameter_is_trained_once_and_vectors_do_not_decay() -> None:
    model = tiny()
    decayed, spared = AdamW().descent(training_of(model)).optimisers[0].param_groups
    assert {id(weight) for group in (decayed, spared) for weight in group["params"]} == {
        id(weight) for weight in model.parameters()
    }
    names = {id(weight): name for name, weight in model.named_parameters()}
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.01, 0.0)
    assert all("LayerNorm" in names[id(weight)] or "bias" in names[id(weight)] for weight in spared["params"])
    assert not any("LayerNorm" in names[id(weight)] for weight in decayed["params"])


def test_the_rate_falls_linearly_where_that_is_asked_for() -> None:
    """Oracle: the schedule named in the released code, as in `transformers`, one step later."""
    settings = AdamW(learning_rate=0.5, warm_up_steps=3, decay="linear")
    descent = settings.descent(training_of(tiny()))
    descent.steps = 9
    ours = []
    for step in range(1, 10):
        descent.set_rates(step)
        ours.append(descent.optimisers[0].param_groups[0]["lr"])
    other = torch.optim.SGD([torch.zeros(1)], lr=0.5)
    schedule = get_linear_schedule_with_warmup(other, num_warmup_steps=3, num_training_steps=10)
    theirs = []
    for _ in range(9):
        other.step()
        schedule.step()
        theirs.append(schedule.get_last_lr()[0])
    assert ours == pytest.approx(theirs)
    assert settings != AdamW(learning_rate=0.5, warm_up_steps=3)


def test_the_rate_rises_to_the_warm_ups_end_and_stays() -> None:
    assert [warmed_up(1.0, 4, step) for step in range(1, 7)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert warmed_up(1.0, 0, 1) == 1.0
    Descent([], 40, 40)
    with pytest.raises(BadInput, match="warm-up of 41 steps is longer than the run of 40"):
        Descent([], 41, 40)


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.5, 0.0), (0.5, 0.1)])
def test_sgd_is_its_definition_in_float64(momentum: float, decay: float) -> None:
    model = tiny()
    oracle = copy.deepcopy(model)
    rule = SGD(learning_rate=0.1, momentum=momentum, weight_decay=decay).build(training_of(model, steps=20))
    velocity = [torch.zeros_like(weight) for weight in oracle.parameters()]
    for step in range(1, 6):
        rule.step(batch_of(step), step)
        gradients = gradients_of(oracle, step)
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
