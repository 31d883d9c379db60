"""Changes of weights against their definitions, number by number."""

import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from isoloss.curvature.weight_changes import (
    MixedRounding,
    Noise,
    Pruning,
    Replacement,
    Rounding,
    differences,
    mean_squares,
    rounded_to,
)
from tiny_language_models import tiny_language_model


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_every_group_of_a_row_is_rounded_by_itself():
    weights = drawn(3, 10)
    found = rounded_to(weights, bits=4, group=4)
    for row in range(3):
        for start in (0, 4, 8):  # the last group has two numbers
            alone = rounded_to(weights[row : row + 1, start : start + 4], bits=4)
            assert torch.equal(found[row, start : start + 4], alone[0])
    assert torch.equal(rounded_to(weights, 4, group=64), rounded_to(weights, 4))
    assert rounded_to(drawn(0, 10), 4).shape == (0, 10)
    experts = drawn(2, 3, 10)
    assert torch.equal(rounded_to(experts, 5, 5)[1], rounded_to(experts[1], 5, 5))


def test_a_row_is_what_one_output_is_made_of_however_it_is_stored():
    linear, other = nn.Linear(6, 4), Conv1D(4, 6)
    with torch.no_grad():
        other.weight.copy_(linear.weight.T)
    model = nn.ModuleDict({"linear": linear, "other": other})
    found = differences(model, Rounding(3))
    assert found.keys() == {"linear.weight", "other.weight"}
    assert torch.equal(found["linear.weight"], found["other.weight"].T)
    assert torch.equal(found["linear.weight"], rounded_to(linear.weight.detach(), 3) - linear.weight.detach())


def test_pruning_removes_the_smallest():
    model = nn.Linear(7, 5)
    found = differences(model, Pruning(0.4))
    kept = (model.weight + found["weight"]).detach()
    assert int((kept == 0).sum()) == 14
    assert kept[kept != 0].abs().min() >= model.weight[kept == 0].abs().max()
    assert torch.equal(kept[kept != 0], model.weight[kept != 0])
    assert not differences(model, Pruning(0.01))


def test_noise_has_the_deviation_that_it_says():
    model = nn.Linear(200, 200)
    found, squares = differences(model, Noise(0.03, seed=1)), mean_squares(model, Noise(0.03))
    assert found.keys() == squares.keys() == {"weight", "bias"}
    assert squares["weight"] == pytest.approx(0.03**2 * float(model.weight.double().square().mean()))
    assert float(found["weight"].square().mean()) == pytest.approx(squares["weight"], rel=0.05)
    again, otherwise = differences(model, Noise(0.03, seed=1)), differences(model, Noise(0.03, seed=2))
    assert torch.equal(found["weight"], again["weight"])
    assert not torch.equal(found["weight"], otherwise["weight"])


def test_after_a_replacement_the_model_is_the_other_one():
    model, other = tiny_language_model("gpt2"), tiny_language_model("gpt2")
    with torch.no_grad():
        other.transformer.h[1].mlp.c_fc.weight *= 1.5
    found = differences(model, Replacement.by(other, "other"))
    assert list(found) == ["transformer.h.1.mlp.c_fc.weight"]
    own, its = model.transformer.h[1].mlp.c_fc.weight, other.transformer.h[1].mlp.c_fc.weight
    torch.testing.assert_close(own + found["transformer.h.1.mlp.c_fc.weight"], its)


def test_mixed_bits_are_each_tensors_own():
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
    found = differences(model, MixedRounding({"0.weight": 3}))
    assert list(found) == ["0.weight"]
    assert torch.equal(found["0.weight"], differences(model, Rounding(3))["0.weight"])
    assert mean_squares(model, MixedRounding({"0.weight": 3}))["1.weight"] == 0.0
