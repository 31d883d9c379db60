"""Predicted KL against the enumerated Hessian of the KL, measured KL against its definition; in float64."""

from functools import partial

import pytest
import torch
from reparametrisations import batch_of
from unusual_models import Model, ModuleOfTwo, Whole
from unusual_models import batch_of as batch_of_few

from isoloss.curvature import predicted_kl as module
from isoloss.curvature.derivatives import hessian_vector_product, normal_probe, trainable_parameters
from isoloss.curvature.predicted_kl import measured_kl, predicted_kl
from isoloss.objectives.batch import NonFiniteScores
from thorough_cases import others_thorough
from tiny_language_models import CAUSAL, MASKED, tiny_language_model


def weighted_kl(log_p, logits, batch):
    """The mean over sentences of the mean over their predictions, by a loop."""
    each = (log_p.exp() * (log_p - logits.log_softmax(1))).sum(1)
    return torch.stack([each[batch.rows == i].mean() for i in range(len(batch))])


def small_change(model, key):
    return {name: 1e-3 * each for name, each in normal_probe(trainable_parameters(model), key).items()}


@pytest.mark.parametrize("way", ["forwards", "twice backwards"])
def test_what_training_holds_constant_moves_the_scores_too(way, monkeypatch):
    class NormHeldConstant(Model):
        def inner(self, x):
            return x @ (self.layer.weight / self.layer.weight.norm(dim=1, keepdim=True).detach()).T

    if way == "twice backwards":
        monkeypatch.setattr(module, "_forward_mode", module._twice_backward)
    model, batch = NormHeldConstant(layer=lambda: torch.nn.Linear(4, 4)), batch_of_few(3, 4, 2)
    change = {"layer.weight": 1e-4 * torch.arange(16.0, dtype=torch.float64).view(4, 4)}
    found = predicted_kl(model, Whole(), [batch], change)
    true = measured_kl(model, Whole(), [batch], change)
    torch.testing.assert_close(found.quadratic, true, rtol=1e-2, atol=0)


@pytest.mark.parametrize("name", [*MASKED, *CAUSAL])
def test_for_every_architecture_it_is_the_second_derivative_of_the_kl(name):
    model, (objective, batch) = tiny_language_model(name), batch_of(name)
    parameters, change = trainable_parameters(model), small_change(model, name)
    log_p = objective.logits(model, batch).detach().log_softmax(1)
    found = predicted_kl(model, objective, [batch], change)

    def kl_of(sentence):
        return weighted_kl(log_p, objective.logits(model, batch), batch)[sentence]

    for sentence in range(len(batch)):
        product = hessian_vector_product(partial(kl_of, sentence), parameters, change)
        expected = 0.5 * sum((change[key] * each).sum() for key, each in product.items())
        # Llama's norms compute in single precision, whatever the weights are.
        torch.testing.assert_close(found.quadratic[sentence], expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", others_thorough(["bert", "llama"]))
def test_of_some_tensors_and_in_pieces_it_is_the_same(name):
    model, (objective, batch) = tiny_language_model(name), batch_of(name)
    every = normal_probe(trainable_parameters(model), "all of it")
    change = {key: 1e-3 * each for key, each in list(every.items())[::3]}
    whole = predicted_kl(model, objective, [batch], change)
    one_at_a_time = predicted_kl(model, objective, [batch], change, memory_bytes=1)
    padded = {key: change.get(key, torch.zeros_like(each)) for key, each in every.items()}
    with_zeros = predicted_kl(model, objective, [batch], padded)
    for other in (one_at_a_time, with_zeros):
        torch.testing.assert_close(whole.quadratic, other.quadratic, rtol=1e-9, atol=0)
        torch.testing.assert_close(whole.linearised, other.linearised, rtol=1e-9, atol=0)
    assert torch.equal(measured_kl(model, objective, [batch], change).gt(0), torch.ones(3).bool())


def both_ways(model, objective, batch, change, monkeypatch):
    """The quadratic form by forward-mode derivatives, and by two backward passes where there are none."""

    def refused(*_):
        raise NotImplementedError("no forward derivative")

    forward = predicted_kl(model, objective, [batch], change)
    monkeypatch.setattr(module, "_forward_mode", refused)
    return forward.quadratic, predicted_kl(model, objective, [batch], change).quadratic


@pytest.mark.parametrize("name", ["roberta", "gpt2", "opt"])
def test_two_backward_passes_give_what_forward_mode_gives(name, monkeypatch):
    model, (objective, batch) = tiny_language_model(name), batch_of(name)
    change = normal_probe(trainable_parameters(model), "twice")
    forward, backward = both_ways(model, objective, batch, change, monkeypatch)
    torch.testing.assert_close(forward, backward, rtol=1e-9, atol=0)


def test_a_change_of_what_no_scores_depend_on_is_none_by_either_way(monkeypatch):
    model, (objective, batch) = tiny_language_model("bert"), batch_of("bert")
    model.unread = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    change = {"unread": torch.ones(2, dtype=torch.float64)}
    forward, backward = both_ways(model, objective, batch, change, monkeypatch)
    assert not forward.any()
    assert not backward.any()


def test_a_module_that_is_part_of_two_moves_once_and_is_left_as_found(monkeypatch):
    model, batch = ModuleOfTwo(), batch_of_few(3, 4, 2)
    change, before = {"first.weight": 0.1 * torch.eye(4).double()}, model.first.weight
    forward, backward = both_ways(model, Whole(), batch, change, monkeypatch)
    assert model.first.weight is model.second["same"].weight is before
    torch.testing.assert_close(forward, backward, rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_the_measured_kl_is_its_definition_and_the_predictions_limit(name):
    model, (objective, batch) = tiny_language_model(name), batch_of(name)
    before = {key: each.clone() for key, each in model.state_dict().items()}
    change = normal_probe(trainable_parameters(model), "limit")
    log_p = objective.logits(model, batch).detach().log_softmax(1)
    errors = []
    for size in (1e-3, 1e-4):
        moved = {key: size * each for key, each in change.items()}
        measured = measured_kl(model, objective, [batch], moved)
        other = tiny_language_model(name)
        with torch.no_grad():
            for key, each in trainable_parameters(other).items():
                each += moved[key]
        expected = weighted_kl(log_p, objective.logits(other, batch).detach(), batch)
        torch.testing.assert_close(measured, expected, rtol=1e-6, atol=0)
        predicted = predicted_kl(model, objective, [batch], moved)
        errors.append([each / measured - 1 for each in (predicted.quadratic, predicted.linearised)])
    for larger, smaller in zip(*errors, strict=True):
        assert smaller.abs().max() < 0.01
        # The next order in the size: a tenth of the change, a tenth of the error.
        torch.testing.assert_close(smaller, larger / 10, rtol=0.2, atol=1e-4)
    assert all(torch.equal(each, before[key]) for key, each in model.state_dict().items())


def test_the_linearised_kl_is_exact_where_logits_are_linear():
    model, (objective, batch) = tiny_language_model("bert"), batch_of("bert")
    change = {"cls.predictions.bias": torch.linspace(-2, 2, 11).double()}
    predicted = predicted_kl(model, objective, [batch], change)
    measured = measured_kl(model, objective, [batch], change)
    torch.testing.assert_close(predicted.linearised, measured, rtol=1e-10, atol=0)
    assert not torch.allclose(predicted.quadratic, measured, rtol=0.05)


def test_scores_that_are_not_finite_are_refused():
    model, (objective, batch) = tiny_language_model("gpt2"), batch_of("gpt2")
    change = {"transformer.wte.weight": torch.full_like(model.transformer.wte.weight, 1e308)}
    with pytest.raises(NonFiniteScores, match="sentence 1"):
        measured_kl(model, objective, [batch], change)
