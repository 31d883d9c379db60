import copy
from dataclasses import replace

import pytest
import ragged_batches
import torch
from model_state import state

import isoloss.curvature.loss as loss_module
from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.loss import BatchLoss, LossAtRest, label_distributions
from isoloss.errors import BadInput
from isoloss.objectives.batch import sentence_averaged_loss, sentences_between
from isoloss.objectives.masked import MaskedObjective

OBJECTIVE = MaskedObjective()


@pytest.fixture
def model(model):
    return model.eval()


def test_each_sentences_loss_is_its_own_mean(model, monkeypatch):
    batch = ragged_batches.several_masks()
    losses = BatchLoss(model, OBJECTIVE, batch).values()
    for i in range(len(batch)):
        part = sentences_between(batch, i, i + 1)
        expected = sentence_averaged_loss(OBJECTIVE.logits(model, part), part)
        assert losses[i].item() == pytest.approx(expected.item(), rel=1e-12)
    certain = replace(batch, soft_targets=label_distributions(batch, int(batch.targets.max()) + 1))
    torch.testing.assert_close(BatchLoss(model, OBJECTIVE, certain).values(), losses)
    monkeypatch.setattr(loss_module, "FORWARD_MEMORY_BYTES", 1)
    torch.testing.assert_close(BatchLoss(model, OBJECTIVE, batch).values(), losses)


def test_the_rise_is_that_of_a_moved_copy_and_the_model_stays(model):
    batch = ragged_batches.several_masks()
    generator = torch.Generator().manual_seed(5)
    parameters = trainable_parameters(model)
    direction = {
        name: torch.randn(p.shape, generator=generator, dtype=p.dtype) for name, p in parameters.items()
    }
    before = state(model)
    rise = LossAtRest.of(BatchLoss(model, OBJECTIVE, batch)).rise(direction, -0.03)
    after = state(model)
    assert before[:2] == after[:2]
    assert all(torch.equal(value, after[3][name]) for name, value in before[3].items())
    moved = copy.deepcopy(model)
    with torch.no_grad():
        for name, parameter in trainable_parameters(moved).items():
            parameter += -0.03 * direction[name]
    expected = BatchLoss(moved, OBJECTIVE, batch).values()
    torch.testing.assert_close(rise, expected - BatchLoss(model, OBJECTIVE, batch).values())


def test_scores_that_are_not_finite_are_refused_and_the_weights_put_back(model):
    batch = ragged_batches.one_mask()
    at_rest = LossAtRest.of(BatchLoss(model, OBJECTIVE, batch))
    before = {name: p.clone() for name, p in trainable_parameters(model).items()}
    upward = {name: torch.ones_like(p) for name, p in trainable_parameters(model).items()}
    with pytest.raises(BadInput, match=r"moved by inf times the direction .* move them less"):
        at_rest.rise(upward, float("inf"))
    assert all(torch.equal(p, before[name]) for name, p in trainable_parameters(model).items())
    with torch.no_grad():
        next(model.parameters())[:] = float("nan")
    with pytest.raises(BadInput, match="scores for sentence 11 are not finite"):
        LossAtRest.of(BatchLoss(model, OBJECTIVE, batch, 10))
