"""Models on a second device, whole, in part or with their weights elsewhere: in a process of its own.

Run by `test_several_devices.py`, which says in SECOND_DEVICE where the device is built.
"""

import json
import os
from functools import partial

import pytest
import second_device
import torch
from called import answer, json_of
from models_to_place import SENTENCES, TOKENS, bert, gpt2, llama
from torch import nn
from transformers import T5Config, T5ForConditionalGeneration

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.predicted_kl import measured_kl, predicted_kl
from isoloss.curvature.stopping import Stopping
from isoloss.measurements.measured_models import measure
from isoloss.measurements.models_on_text import sampled_batches
from isoloss.measurements.on_sentences import quantity_names
from isoloss.measurements.prediction import MaskedTokens, NextToken
from isoloss.models.streamed_weights import spread_over_devices, stream_weights
from isoloss.objectives.pretrained import PretrainedCausal, next_token_batch
from isoloss.objectives.task_heads import TargetToken, target_batch
from tiny_models import far_from_the_start

HERE = torch.device("cpu")
THERE = second_device.load(os.environ["SECOND_DEVICE"])
EVERY = [name for name in quantity_names() if name != "relative_critical_sharpness"]  # needs another model
LONG = ("local_learning_coefficient", "spectral_density")
"""Half a minute each, for what others do as well: products with the Hessian, and gradients."""
FEW = ["fisher_trace", "hessian_trace", "noise_sensitivity", "pretraining_loss", "unit_trace"]


def t5(layers):
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": layers, "num_heads": 2}
    return T5ForConditionalGeneration(T5Config(vocab_size=TOKENS, decoder_start_token_id=0, **sizes))


def built(kind):
    torch.manual_seed(0)
    return far_from_the_start(kind(layers=4).double().eval())


def moved(model):
    model.to(THERE)
    model.tie_weights()  # which torch keeps tied only on devices that it knows


def spread(model):
    spread_over_devices(model, [THERE, HERE])
    assert {parameter.device for parameter in model.parameters()} == {THERE, HERE}


WAYS = [moved, partial(stream_weights, device=THERE), spread]
NAMED = ["moved", "streamed", "spread"]


@pytest.mark.parametrize(
    ("kind", "place", "name"),
    [
        pytest.param(kind, way, name, id=f"{kind.__name__}-{called}-{name}")
        for kind in (gpt2, llama, bert)
        for called, way in zip(NAMED, WAYS, strict=True)
        for name in (EVERY if way is spread else FEW)
        if name not in LONG or kind is gpt2
    ],
)
def test_every_quantity_is_that_of_the_model_here(kind, place, name, tmp_path):
    (tmp_path / "ids.jsonl").write_text("\n".join(json.dumps(ids) for ids in 3 * SENTENCES))
    prediction = MaskedTokens(token=2) if kind is bert else NextToken()
    found = []
    for way in (nn.Module.cpu, place):
        model = built(kind)
        way(model)
        batches = sampled_batches({"it": model}, prediction, tmp_path / "ids.jsonl", 0)
        found.append(measure(name, {"it": model}, batches, Stopping(sentences=6), {}).records)
    for one, other in zip(*found, strict=True):
        assert one.quantity == other.quantity
        # Llama's angles are in float32.
        assert other.value == pytest.approx(one.value, rel=1e-6, abs=1e-9), one


@pytest.mark.parametrize("place", WAYS, ids=NAMED)
def test_an_encoder_and_a_decoder_have_the_traces_of_those_here(place):
    batch = target_batch([[5, 6, 7, 8], [9, 10], [5, 7, 9]], [[6, 7, 2], [8, 2], [9, 10, 2]], 0, 0)
    model = built(t5)
    place(model)
    found, expected = (fisher_trace(each, [batch], TargetToken()) for each in (model, built(t5)))
    assert found.groups.keys() == expected.groups.keys()
    for group, values in expected.groups.items():
        torch.testing.assert_close(found.groups[group].cpu(), values)


@pytest.mark.parametrize("place", WAYS, ids=NAMED)
@pytest.mark.parametrize("kind", [gpt2, llama])
def test_the_cost_of_changed_weights_is_that_here(kind, place):
    batches, objective = [next_token_batch(SENTENCES, 0)], PretrainedCausal()
    found = []
    for way in (nn.Module.cpu, place):
        model = built(kind)
        changes = {name: 0.01 * parameter.detach().sin() for name, parameter in model.named_parameters()}
        way(model)
        at = {name: parameter.device for name, parameter in model.named_parameters()}
        changes = {name: change.to(at[name]) for name, change in changes.items()}
        predicted = predicted_kl(model, objective, batches, changes).quadratic
        found.append((predicted.cpu(), measured_kl(model, objective, batches, changes).cpu()))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(other, one, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("devices", [second_device.NAME, f"{second_device.NAME},cpu"])
@pytest.mark.parametrize("command", ["flatness", "sensitivity"])
def test_the_command_line_gives_the_numbers_of_the_model_here(command, devices, tmp_path, capsys):
    model, ids = tmp_path / "model", tmp_path / "ids.jsonl"
    built(llama).save_pretrained(model)
    ids.write_text("\n".join(json.dumps(each) for each in 8 * SENTENCES))
    asked = [
        command,
        str(model),
        "--token-ids",
        str(ids),
        *["--dtype", "float64", "--sentences", "16", "--json"],
    ]
    if command == "sensitivity":
        asked += ["--check", "--noise", "0.01", "--prune", "0.1", "--round", "4"]
    found = []
    for device in ("cpu", devices):
        found.append(json_of(answer(capsys, *asked, "--device", device))["records"])
    for one, other in zip(*found, strict=True):
        assert {**other, "value": 0, "standard_error": 0} == {**one, "value": 0, "standard_error": 0}
        assert other["value"] == pytest.approx(one["value"], rel=1e-6, abs=1e-12), one
