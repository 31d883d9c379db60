import copy

import pytest
import ragged_batches
import torch
from dense_derivatives import dense_hessian, gradient_of

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.loss import BatchLoss
from isoloss.curvature.loss_rise import RADII, ascent_sharpness
from isoloss.errors import BadInput
from isoloss.measurements.fixed_sentences import FixedSentences
from isoloss.measurements.on_sentences.loss_rise import AscentSharpnessQuantity
from isoloss.measurements.quantity import Subject
from isoloss.objectives.batch import sentences_between
from isoloss.objectives.masked import MaskedObjective
from isoloss.progress import silent
from tiny_models import ARCHITECTURES, partly_frozen, tiny_model

OBJECTIVE = MaskedObjective()


def test_rises_are_those_of_a_copy_moved_along_its_gradient(model):
    batch = ragged_batches.several_masks()
    found = ascent_sharpness(model, [batch], OBJECTIVE)
    model.eval()
    g = gradient_of(BatchLoss(model, OBJECTIVE, batch).mean(), model)
    assert found.gradient_norm == pytest.approx(float(g.norm()), rel=1e-9)
    losses = BatchLoss(model, OBJECTIVE, batch).values()
    assert tuple(found.rises) == RADII
    for radius, rises in found.rises.items():
        moved = copy.deepcopy(model)
        parameters = list(trainable_parameters(moved).values())
        steps = torch.split(radius * g / g.norm(), [p.numel() for p in parameters])
        with torch.no_grad():
            for parameter, step in zip(parameters, steps, strict=True):
                parameter += step.view_as(parameter)
        expected = BatchLoss(moved, OBJECTIVE, batch).values() - losses
        torch.testing.assert_close(rises, expected, rtol=1e-9, atol=1e-12)
        estimate = found.estimates[radius]
        assert estimate.value == pytest.approx(float(expected.mean()), rel=1e-9)
        assert estimate.standard_error == pytest.approx(float(expected.std() / 6**0.5), rel=1e-9)


def test_to_second_order_it_is_the_gradients_norm_and_the_curvature_along_it(model):
    batch = ragged_batches.one_mask()
    partly_frozen(model, "layer.1.output").eval()
    found = ascent_sharpness(model, [batch], OBJECTIVE, radii=(1e-3,))
    g = gradient_of(BatchLoss(model, OBJECTIVE, batch).mean(), model)
    hessian = dense_hessian(BatchLoss(model, OBJECTIVE, batch).mean, trainable_parameters(model))
    curvature = float(g @ hessian @ g / g.square().sum())
    first_order = 1e-3 * float(g.norm())
    assert found.estimates[1e-3].value - first_order == pytest.approx(curvature * 1e-6 / 2, rel=0.02)


def test_how_sentences_are_batched_changes_nothing(model):
    batch = ragged_batches.several_masks()
    together = ascent_sharpness(model, [batch], OBJECTIVE)
    apart = ascent_sharpness(
        model, [sentences_between(batch, 0, 1), sentences_between(batch, 1, 6)], OBJECTIVE
    )
    for radius in RADII:
        torch.testing.assert_close(apart.rises[radius], together.rises[radius], rtol=1e-9, atol=1e-12)


def test_where_the_gradient_is_zero_nothing_rises(model):
    """A gradient that is exactly zero has no direction."""

    class Uniform:
        def logits(self, model, batch):
            return torch.zeros(len(batch.rows), 9, dtype=torch.float64) * next(model.parameters()).sum()

    found = ascent_sharpness(model, [ragged_batches.one_mask()], Uniform())
    assert found.gradient_norm == 0
    assert {estimate.value for estimate in found.estimates.values()} == {0.0}


def test_records_hold_every_radius(model):
    batch = ragged_batches.one_mask()
    found = ascent_sharpness(model, [batch], OBJECTIVE)
    quantity, drawn = AscentSharpnessQuantity(6, 7), FixedSentences((batch,))
    records = quantity.measure(model, drawn, Subject("step-3", OBJECTIVE, {"step": 3}, None), silent).records
    assert [(r.quantity, r.settings["radius"], r.unit, r.n) for r in records] == [
        ("ascent_sharpness", radius, "nats", 6) for radius in RADII
    ]
    assert records[0].value == found.estimates[RADII[0]].value
    assert records[0].settings["gradient_norm"] == found.gradient_norm
    assert (records[0].seed, records[0].checkpoint, records[0].settings["step"]) == (7, "step-3", 3)


@pytest.mark.parametrize("radii", [(), (0.0,), (0.1, -0.1), (float("inf"),), (0.1, 0.1)])
def test_radii_that_make_no_sense_are_refused(radii):
    model = tiny_model(ARCHITECTURES[0], ragged_batches.WORDS, ragged_batches.LENGTH)
    with pytest.raises(BadInput, match="radii"):
        ascent_sharpness(model, [ragged_batches.one_mask()], OBJECTIVE, radii=radii)
