"""One contract for every update rule, and each rule's own arithmetic against an oracle."""

import copy

import pytest
import torch
from runs import LANGUAGE

from isoloss.errors import BadInput
from isoloss.models.shapes import Shape
from isoloss.models.transformers import PostLayerNormTransformer
from isoloss.objectives.batch import Batch, sentence_averaged_loss
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.seeds import caller_randomness_kept, seed_dropout
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training, UpdateRule, UpdateRuleSettings
from isoloss.pretraining.warm_up import warmed_up

RULES: list[UpdateRuleSettings] = [AdamW(warm_up_steps=3), AdamW(weight_decay=0.0, warm_up_steps=0)]
CPU = torch.device("cpu")
OBJECTIVE = MaskedObjective()


def built(settings: UpdateRuleSettings, dropout: float = 0.1) -> tuple[torch.nn.Module, UpdateRule]:
    model = PostLayerNormTransformer(Shape(8, 2, 1, 16), dropout).build(2, LANGUAGE.maximum_length, seed=1)
    model.train()
    return model, settings.build(Training(model, OBJECTIVE, LANGUAGE, seed=0))


def batch_of(step: int) -> Batch:
    return Stream(LANGUAGE, OBJECTIVE, batch_size=16, seed=0).batch(step - 1)


def train(rule: UpdateRule, first: int, last: int) -> list[torch.Tensor]:
    with caller_randomness_kept(CPU):
        losses = []
        for step in range(first, last + 1):
            seed_dropout(0, step, CPU)
            losses.append(rule.step(batch_of(step), step))
        return losses


@pytest.mark.parametrize("settings", RULES, ids=repr)
class TestContract:
    def test_the_loss_is_the_batchs_before_the_update_detached(self, settings: UpdateRuleSettings) -> None:
        model, rule = built(settings, dropout=0.0)
        batch = batch_of(1)
        expected = sentence_averaged_loss(OBJECTIVE.logits(model, batch), batch)
        loss = rule.step(batch, 1)
        assert torch.equal(loss, expected.detach())
        assert not loss.requires_grad

    def test_training_lowers_the_loss(self, settings: UpdateRuleSettings) -> None:
        _, rule = built(settings)
        losses = torch.stack(train(rule, 1, 150))
        assert losses[-10:].mean() < losses[:10].mean() - 0.1

    def test_a_saved_rule_goes_on_to_the_same_bits(self, settings: UpdateRuleSettings) -> None:
        model, rule = built(settings)
        train(rule, 1, 4)
        weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(rule.state_dict())
        undisturbed = train(rule, 5, 8)

        resumed_model, resumed = built(settings)
        train(resumed, 1, 1)
        resumed_model.load_state_dict(weights)
        resumed.load_state_dict(state)
        assert all(map(torch.equal, train(resumed, 5, 8), undisturbed))
        assert all(map(torch.equal, model.parameters(), resumed_model.parameters()))


def test_adamw_is_the_textbooks_in_float64() -> None:
    """Loshchilov and Hutter 2019, algorithm 2, written out; decay on matrices alone."""
    settings = AdamW(learning_rate=0.01, warm_up_steps=2, epsilon=1e-6, weight_decay=0.5)
    model, _ = built(settings, dropout=0.0)
    model.double()
    rule = settings.build(Training(model, OBJECTIVE, LANGUAGE, seed=0))
    oracle = copy.deepcopy(model)
    first = {name: torch.zeros_like(weight) for name, weight in oracle.named_parameters()}
    second = copy.deepcopy(first)
    for step in range(1, 5):
        batch = batch_of(step)
        rule.step(batch, step)

        loss = sentence_averaged_loss(OBJECTIVE.logits(oracle, batch), batch)
        gradients = torch.autograd.grad(loss, list(oracle.parameters()))
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
    model, rule = built(AdamW())
    decayed, spared = rule.optimiser.param_groups
    assert {id(weight) for group in (decayed, spared) for weight in group["params"]} == {
        id(weight) for weight in model.parameters()
    }
    names = {id(weight): name for name, weight in model.named_parameters()}
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.01, 0.0)
    assert all("LayerNorm" in names[id(weight)] or "bias" in names[id(weight)] for weight in spared["params"])
    assert not any("LayerNorm" in names[id(weight)] for weight in decayed["params"])


def test_the_rate_rises_to_the_warm_ups_end_and_stays() -> None:
    assert [warmed_up(1.0, 4, step) for step in range(1, 7)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert warmed_up(1.0, 0, 1) == 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"warm_up_steps": -1},
        {"first_beta": 1.0},
        {"second_beta": -0.1},
        {"epsilon": 0.0},
        {"weight_decay": -1.0},
        {"weight_decay": float("inf")},
    ],
    ids=repr,
)
def test_impossible_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        AdamW(**wrong)
