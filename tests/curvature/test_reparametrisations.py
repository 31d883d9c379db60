"""Which quantities stay as they are under changes of weights that leave the function."""

import copy

import pytest
import torch
from reparametrisations import NORMS, SENTENCES, absorb, batch_of, change_values, rescale_neurons, rotation

from isoloss.curvature.critical_sharpness import critical_sharpness
from isoloss.curvature.directional_curvature import batch_sharpness, directional_sharpness
from isoloss.curvature.gradient_norm import gradient_norm
from isoloss.curvature.local_learning_coefficient import local_learning_coefficient
from isoloss.curvature.spectrum import spectral_density, top_eigenvalues
from isoloss.curvature.weight_changes import Replacement, differences
from isoloss.objectives.batch import sentences_between
from tiny_language_models import tiny_language_model
from tiny_models import far_from_the_start


def nearby(model):
    """Another checkpoint of the same run, a little away."""
    return far_from_the_start(copy.deepcopy(model), by=0.05, seed=7)


def quantities(model, other, objective, batch):
    """Each quantity that depends on no draw."""
    two, towards = [sentences_between(batch, 0, 2)], differences(model, Replacement.by(other, "other"))
    found = {
        "top eigenvalues": top_eigenvalues(model, [batch], objective, count=2, tolerance=1e-8).estimates[1],
        "batch sharpness": batch_sharpness(model, [batch], objective, batch=1).estimate,
        "along the gradient": directional_sharpness(model, [batch], objective).estimate,
        "towards another": directional_sharpness(model, [batch], objective, direction=towards).estimate,
        "critical sharpness": critical_sharpness(model, [batch], objective).estimate,
        "relative critical sharpness": critical_sharpness(model, [batch], objective, along=two).estimate,
        "gradient noise scale": gradient_norm(model, [batch], objective).signal,
    }
    return {name: each.value for name, each in found.items()}


def rotate_heads(model):
    change_values(model, "opt", 0, 4, rotation)


def absorb_norms(model):
    for norm, readers in NORMS["opt"](model):
        absorb(norm, readers, torch.logspace(-1, 1, norm.weight.numel()).double())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "stays"), [(rotate_heads, True), (rescale_neurons, False), (absorb_norms, False)]
)
def test_curvatures_stay_under_rotations_and_change_under_rescalings(change, stays):
    model, (objective, batch) = tiny_language_model("opt"), batch_of("opt")
    other = nearby(model)
    scores, before = objective.logits(model, batch), quantities(model, other, objective, batch)
    for each in (model, other):
        change(each)
    torch.testing.assert_close(objective.logits(model, batch), scores)
    after = quantities(model, other, objective, batch)
    for name, value in before.items():
        assert (after[name] == pytest.approx(value, rel=1e-5)) == stays, name


@pytest.mark.slow
def test_so_do_the_density_and_the_local_learning_coefficient_within_the_error_of_their_draws():
    model, (objective, batch) = tiny_language_model("opt"), batch_of("opt")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(
            "layers.0.self_attn" in name and name.endswith(("v_proj.weight", "out_proj.weight"))
        )
    assert len(SENTENCES) == len(batch)

    def measured():
        density = spectral_density(model, [batch], objective, probes=6, steps=12)
        chains = {"chains": 4, "burn_in": 20, "draws": 30, "localisation": 5.0, "step": 0.01}
        return (
            density.effective_rank,
            density.negative_curvature,
            local_learning_coefficient(model, [batch], objective, **chains).estimate,
        )

    before = measured()
    rotate_heads(model)
    for old, new in zip(before, measured(), strict=True):
        assert new.value != old.value
        error = (old.standard_error**2 + new.standard_error**2) ** 0.5
        assert abs(new.value - old.value) < 4 * error
