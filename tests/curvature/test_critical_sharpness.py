"""The critical learning rate against a fine scan of the loss along the gradient, in float64."""

import pytest
import ragged_batches
import torch

from isoloss.curvature.critical_sharpness import critical_sharpness
from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.loss import BatchLoss
from isoloss.objectives.evaluation import displaced
from isoloss.objectives.masked import MaskedObjective
from tiny_models import ARCHITECTURES, tiny_model

OBJECTIVE = MaskedObjective()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_is_where_a_scan_finds_that_the_loss_rises(architecture):
    model = tiny_model(architecture, ragged_batches.WORDS, ragged_batches.LENGTH)
    batch = ragged_batches.several_masks()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    found = critical_sharpness(model, [batch], OBJECTIVE)
    assert model.training
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    model.eval()
    weights = list(trainable_parameters(model).values())
    gradient = torch.autograd.grad(BatchLoss(model, OBJECTIVE, batch).mean(), weights, materialize_grads=True)
    at_rest = BatchLoss(model, OBJECTIVE, batch).values()

    def rises(rate):
        with displaced(weights, list(gradient), -rate):
            return BatchLoss(model, OBJECTIVE, batch).values() - at_rest

    rate = found.learning_rate
    assert found.estimate.value == pytest.approx(2 / rate)
    scan = [rate * share for share in torch.linspace(0.02, 1.0, 50).tolist()]
    assert all(float(rises(each).mean()) <= 0 for each in scan if each < 0.985 * rate)
    assert float(rises(1.015 * rate).mean()) > 0
    slope = float((rises(1.01 * rate) - rises(0.99 * rate)).mean()) / (0.02 * rate)
    error = float(rises(rate).std()) / len(batch) ** 0.5 / slope
    assert found.estimate.standard_error == pytest.approx(2 / rate**2 * error, rel=0.1)
