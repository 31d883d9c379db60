"""What every measure of flatness guarantees, whatever it measures."""

import contextlib
from functools import partial

import pytest
import ragged_batches
import torch
from model_state import state

from isoloss.curvature.critical_sharpness import critical_sharpness
from isoloss.curvature.directional_curvature import batch_sharpness, directional_sharpness
from isoloss.curvature.fisher_diagonal import unit_trace
from isoloss.curvature.fisher_trace import fisher_trace, normalised_trace
from isoloss.curvature.gradient_norm import gradient_norm
from isoloss.curvature.hessian_top_eigenvalue import hessian_top_eigenvalue
from isoloss.curvature.hessian_trace import hessian_trace
from isoloss.curvature.local_learning_coefficient import local_learning_coefficient
from isoloss.curvature.loss_rise import ascent_sharpness, noise_sensitivity
from isoloss.curvature.spectrum import spectral_density, top_eigenvalues
from isoloss.errors import BadInput
from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.objectives.batch import sentences_between
from isoloss.objectives.masked import MaskedObjective
from thorough_cases import others_thorough
from tiny_models import far_from_the_start

OBJECTIVE = MaskedObjective()
MEASURES = {
    "fisher_trace": partial(fisher_trace, memory_bytes=1),
    "normalised_trace": normalised_trace,
    "unit_trace": unit_trace,
    "hessian_trace": hessian_trace,
    "gradient_norm": gradient_norm,
    "hessian_top_eigenvalue": hessian_top_eigenvalue,
    "top_eigenvalues": partial(top_eigenvalues, count=1, tolerance=0.1),
    "spectral_density": partial(spectral_density, probes=2, steps=4),
    "ascent_sharpness": ascent_sharpness,
    "noise_sensitivity": noise_sensitivity,
    "directional_sharpness": directional_sharpness,
    "batch_sharpness": partial(batch_sharpness, batch=2),
    "critical_sharpness": critical_sharpness,
    "local_learning_coefficient": partial(local_learning_coefficient, chains=2, burn_in=1, draws=2),
}
every_measure = pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)


@pytest.fixture
def model():
    built = PostLayerNormTransformer(Shape(4, 2, 1, 4)).build(ragged_batches.WORDS, ragged_batches.LENGTH, 0)
    return far_from_the_start(built.double())


class Broken(Exception):
    pass


class FailsAt:
    """Computes logits as the masked objective does, until its call number `last`."""

    def __init__(self, last):
        self.left = last

    def logits(self, model, batch):
        self.left -= 1
        if self.left < 0:
            raise Broken
        return OBJECTIVE.logits(model, batch)


@every_measure
@pytest.mark.parametrize("calls", [3, 100_000])
def test_the_model_is_left_as_found(measure, calls, model):
    batch = ragged_batches.one_mask()
    model.train().base_model.encoder.eval()
    OBJECTIVE.logits(model, batch).sum().backward()
    next(model.parameters()).requires_grad_(False)
    found = state(model)
    objective = FailsAt(calls)
    with contextlib.suppress(Broken):
        measure(model, [batch], objective)
    assert (objective.left < 0) == (calls == 3)
    torch.testing.assert_close(state(model), found, rtol=0, atol=0)


@every_measure
def test_one_sentence_has_no_error_bar(measure, model):
    said = "at least [23] sentences, not 1|1 sentences (have|are not)|a single sentence says"
    with pytest.raises(BadInput, match=said):
        measure(model, [sentences_between(ragged_batches.one_mask(), 0, 1)], OBJECTIVE)


@every_measure
def test_without_parameters_to_measure_it_is_refused(measure, model):
    with pytest.raises(BadInput, match="no parameter that requires a gradient"):
        measure(model.requires_grad_(False), [ragged_batches.one_mask()], OBJECTIVE)


@pytest.mark.parametrize("sentences_before", others_thorough([2, 3]))
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, float("nan")) for name in MEASURES),
        *(
            (name, value)
            for name in ("fisher_trace", "hessian_trace")
            for value in (float("inf"), -float("inf"))
        ),
    ],
)
def test_scores_that_are_not_finite_are_named(name, value, sentences_before, model):
    class Diverged:
        def logits(self, model, batch):
            scores = OBJECTIVE.logits(model, batch).clone()
            scores[batch.attention_mask.sum(1)[batch.rows] == 2, 1] = value
            return scores

    batch = ragged_batches.one_mask()
    with pytest.raises(BadInput, match=f"scores for sentence {sentences_before + 4} are not finite"):
        MEASURES[name](model, [sentences_between(batch, 0, sentences_before), batch], Diverged())
