"""Weights that are elsewhere until they are needed: the same numbers, with few of them on the device."""

import json
from copy import deepcopy
from functools import partial

import pytest
import torch
from models_to_place import SENTENCES, bert, gpt2, llama
from torch import nn

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.stopping import Stopping
from isoloss.errors import BadInput
from isoloss.measurements.measured_models import measure_each
from isoloss.measurements.models_on_text import load_together, sampled_batches
from isoloss.measurements.on_sentences import quantity_names
from isoloss.measurements.prediction import MaskedTokens, NextToken
from isoloss.models import streamed_weights
from isoloss.models.streamed_weights import stream_offloaded_weights, stream_weights
from isoloss.objectives.evaluation import bytes_kept_for_backward
from isoloss.objectives.pretrained import PretrainedCausal, next_token_batch
from isoloss.progress import silent
from tiny_models import far_from_the_start

BATCH = next_token_batch(SENTENCES, 0)
CPU = torch.device("cpu")
NEED_MORE = ("relative_critical_sharpness", "local_learning_coefficient")
"""A second model, and minutes."""
EVERY = [name for name in quantity_names() if name not in NEED_MORE]
FEW = ["fisher_trace", "hessian_trace", "noise_sensitivity", "pretraining_loss"]


def built(kind):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return far_from_the_start(kind().eval())


def trace(model):
    return fisher_trace(model, [BATCH], PretrainedCausal(), seed=0)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (gpt2, FEW),
        (bert, FEW),
        *(pytest.param(kind, EVERY, marks=pytest.mark.slow) for kind in (gpt2, llama, bert)),
    ],
    ids=["gpt2, some", "bert, some", "gpt2", "llama", "bert"],
)
def test_quantities_of_streamed_weights_are_those_of_weights_in_place(kind, names, tmp_path):
    built(kind).save_pretrained(tmp_path / "model")
    (tmp_path / "ids.jsonl").write_text("\n".join(json.dumps(ids) for ids in 4 * SENTENCES))
    prediction = MaskedTokens(token=2) if kind is bert else NextToken()
    found = []
    for place in (nn.Module.cpu, partial(stream_weights, device="cpu")):
        models = load_together([str(tmp_path / "model")], prediction, torch.float64, place)
        batches = sampled_batches(models, prediction, tmp_path / "ids.jsonl", 0)
        found.append(measure_each(names, models, batches, Stopping(sentences=6), {}, silent, 1 << 30)[0])
    for here, elsewhere in zip(*found, strict=True):
        for one, other in zip(here.records, elsewhere.records, strict=True):
            assert one.quantity == other.quantity
            assert other.value == pytest.approx(one.value, rel=1e-9, abs=1e-12), one.quantity


@pytest.mark.parametrize("kind", [gpt2, pytest.param(llama, marks=pytest.mark.thorough)])
def test_few_copies_are_held_at_a_time(kind, monkeypatch):
    model, held, most = built(kind), 0, 0

    class Copy:
        def __init__(self, size):
            nonlocal held, most
            self.size = size
            held += size
            most = max(most, held)

        def __del__(self):
            nonlocal held
            held -= self.size

    def copied(parameter, device):
        copy = parameter.to(device, copy=True)
        copy.untyped_storage().counted = Copy(parameter.numel())
        return copy

    monkeypatch.setattr(streamed_weights, "_copied", copied)
    stream_weights(model, "cpu")
    assert trace(model).estimate.value == trace(built(kind)).estimate.value
    largest = max(sum(p.numel() for p in m.parameters(recurse=False)) for m in model.modules())
    assert largest <= most <= 2 * largest < sum(p.numel() for p in model.parameters())
    assert held == 0


def offloaded_by_accelerate(kind, folder):
    """By `cpu_offload`, or from a folder to disk, with one module in place."""
    accelerate = pytest.importorskip("accelerate")
    if folder is None:
        return accelerate.cpu_offload(built(kind), execution_device=CPU)
    model = built(kind)
    first, *others = [name for name, _ in model.base_model.named_children()]
    prefix = model.base_model_prefix
    places = {f"{prefix}.{name}": "disk" for name in others} | {f"{prefix}.{first}": "cpu", "lm_head": "disk"}
    return accelerate.dispatch_model(model, places, main_device="cpu", offload_dir=str(folder))


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("kind", [gpt2, pytest.param(llama, marks=pytest.mark.thorough)])
def test_what_accelerate_has_offloaded_is_measured_like_all_in_place(kind, on_disk, tmp_path):
    model = offloaded_by_accelerate(kind, tmp_path if on_disk else None)
    with pytest.raises(BadInput, match="is offloaded to the processor or to disk by accelerate, where no"):
        trace(model)
    stream_offloaded_weights(model)
    found, expected = trace(model), trace(built(kind))
    assert found.estimate == expected.estimate
    assert found.ways == expected.ways
    assert found.parameters == expected.parameters
    assert model.num_parameters() == built(kind).num_parameters()


def test_frozen_weights_stay_frozen_and_tied_ones_tied():
    accelerate = pytest.importorskip("accelerate")
    model = built(gpt2)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("attn" in name)
    accelerate.cpu_offload(model, execution_device=CPU)
    stream_offloaded_weights(model)
    assert {name for name, p in model.named_parameters() if p.requires_grad} == {
        name for name, _ in model.named_parameters() if "attn" in name
    }
    assert model.lm_head.weight is model.transformer.wte.weight


def test_of_a_model_in_place_nothing_is_offloaded():
    with pytest.raises(BadInput, match="nothing of this model is offloaded"):
        stream_offloaded_weights(built(gpt2))


def test_what_a_pass_keeps_does_not_count_the_weights():
    model = built(gpt2)
    in_place = bytes_kept_for_backward(model, PretrainedCausal(), BATCH)
    stream_weights(model, "cpu")
    assert bytes_kept_for_backward(model, PretrainedCausal(), BATCH) == in_place


def test_gradients_of_a_training_step_and_of_its_derivative_are_those_in_place():
    grads = []
    for place in (lambda model: None, partial(stream_weights, device="cpu")):
        model = built(llama).double()
        place(model)
        model.set_attn_implementation("eager")  # others have no derivative of their derivative
        parameters = list(model.parameters())
        loss = PretrainedCausal().logits(model, BATCH).square().mean()
        first = torch.autograd.grad(loss, parameters, create_graph=True)
        second = torch.autograd.grad(sum(each.square().sum() for each in first), parameters)
        grads.append([*first, *second])
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_a_model_streamed_twice_is_left_as_found():
    layer = nn.Linear(2, 2)
    weight = layer.weight
    stream_weights(layer, "cpu")
    forward = layer.forward
    stream_weights(layer, "cpu")
    layer(torch.ones(1, 2))
    assert layer.weight is weight
    assert layer.forward is forward


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_forward_pass_that_fails_leaves_the_weights_in_place_and_the_next_is_like_any_other(error):
    class Fails(nn.Linear):
        def forward(self, x):
            if x.sum() < 0:
                raise error
            return super().forward(x)

    layer = Fails(2, 2)
    weight, expected = layer.weight, layer(torch.ones(1, 2))
    stream_weights(layer, "cpu")
    with pytest.raises(error):
        layer(-torch.ones(1, 2))
    assert layer.weight is weight
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None
    assert torch.equal(layer(torch.ones(1, 2)), expected)
    assert layer.weight is weight


def test_quantised_weights_are_refused():
    layer = nn.Linear(2, 2)
    layer.weight = nn.Parameter(torch.ones(2, 2, dtype=torch.int8), requires_grad=False)
    with pytest.raises(BadInput, match="weight is quantised, and cannot be kept off the device"):
        stream_weights(layer, "cpu")


def test_buffers_that_accelerate_offloads_come_back():
    accelerate = pytest.importorskip("accelerate")
    model = built(bert)
    expected = model(torch.tensor([[3, 4, 5]])).logits
    accelerate.cpu_offload(model, execution_device=CPU, offload_buffers=True)
    stream_offloaded_weights(model)
    assert torch.equal(model(torch.tensor([[3, 4, 5]])).logits, expected)


class ReadsAnothersWeight(nn.Module):
    """As Mamba's mixer reads its convolution's, and MobileBERT's head that of the embeddings, transposed."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x):
        return self.inner(x) @ self.inner.weight.T + self.inner.bias


def test_a_weight_that_another_module_reads_is_copied_too(monkeypatch):
    model, x = ReadsAnothersWeight().double(), torch.ones(3, 2, dtype=torch.float64)
    expected = torch.autograd.grad(model(x).sum(), list(model.parameters()))
    copied = []
    monkeypatch.setattr(
        streamed_weights, "_copied", lambda each, place: copied.append(each) or each.to(place, copy=True)
    )
    stream_weights(model, "cpu")
    y = model(x)
    assert [id(each) for each in copied] == 2 * [id(model.inner.weight), id(model.inner.bias)]
    found = torch.autograd.grad(y.sum(), list(model.parameters()))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_a_copy_of_a_streamed_model_computes_with_its_own_weights():
    model, x = ReadsAnothersWeight(), torch.ones(1, 2)
    stream_weights(model, "cpu")
    before, twin = model(x), deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert torch.equal(twin(x), torch.zeros(1, 2))
    assert torch.equal(model(x), before)
