"""The trace relative to units, by its definition and after reparametrisations that leave the function."""

import math

import pytest
import torch
from ragged_batches import LENGTH, WORDS, several_masks

from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.predicted_kl import predicted_kl
from isoloss.curvature.unit_trace import unit_products, unit_trace
from isoloss.curvature.weight_changes import rows_are_outputs
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.pretrained import PretrainedCausal, PretrainedMasked, masked_batch, next_token_batch
from tiny_language_models import CAUSAL, PAD, tiny_language_model
from tiny_models import tiny_model

SENTENCES = [[1, 5, 3, 4, 1], [1, 9, 6], [1, 4, 4, 10, 2, 1]]
HEADS = {
    # The matrices of values and of what reads them, by layer.
    "bert": (
        "bert.encoder.layer.{}.attention.self.{}",
        "value",
        "bert.encoder.layer.{}.attention.output.dense",
    ),
    "roberta-pre-layer-norm": (
        "roberta_prelayernorm.encoder.layer.{}.attention.self.{}",
        "value",
        "roberta_prelayernorm.encoder.layer.{}.attention.output.dense",
    ),
    "distilbert": (
        "distilbert.transformer.layer.{}.attention.{}",
        "v_lin",
        "distilbert.transformer.layer.{}.attention.out_lin",
    ),
    "opt": ("model.decoder.layers.{}.self_attn.{}", "v_proj", "model.decoder.layers.{}.self_attn.out_proj"),
    "llama": ("model.layers.{}.self_attn.{}", "v_proj", "model.layers.{}.self_attn.o_proj"),
    "qwen3": ("model.layers.{}.self_attn.{}", "v_proj", "model.layers.{}.self_attn.o_proj"),
}
QUERIES = {"bert": ("query", "key"), "distilbert": ("q_lin", "k_lin"), "opt": ("q_proj", "k_proj")}


def batch_of(name):
    if name in CAUSAL:
        return PretrainedCausal(), next_token_batch(SENTENCES, PAD)
    return PretrainedMasked(), masked_batch(SENTENCES, [[1, 3], [1], [2, 3, 4]], mask=2, pad=PAD)


def module(model, name):
    return model.get_submodule(name)


def invertible(size, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.eye(size).double() + 0.4 * torch.randn(size, size, generator=generator, dtype=torch.float64)


@torch.no_grad()
def change_values(model, name, layer, size):
    """Each head's values times a matrix, its output map times the inverse; grouped heads share."""
    pattern, value, output = HEADS[name]
    v, o = module(model, pattern.format(layer, value)), module(model, output.format(layer))
    heads = v.weight.shape[0] // size
    shared = o.weight.shape[1] // v.weight.shape[0]
    for head in range(heads):
        a, rows = invertible(size, 10 * layer + head), slice(head * size, (head + 1) * size)
        v.weight[rows] = a @ v.weight[rows]
        if v.bias is not None:
            v.bias[rows] = a @ v.bias[rows]
        for reader in range(head * shared, (head + 1) * shared):
            columns = slice(reader * size, (reader + 1) * size)
            o.weight[:, columns] = o.weight[:, columns] @ torch.linalg.inv(a)


@torch.no_grad()
def change_queries(model, name, layer, size):
    """Each head's queries times an invertible matrix, its keys times the transposed inverse."""
    q, k = (module(model, HEADS[name][0].format(layer, each)) for each in QUERIES[name])
    for start in range(0, q.weight.shape[0], size):
        rows, a = slice(start, start + size), invertible(size, 100 + start)
        for each, matrix in ((q, a), (k, torch.linalg.inv(a).T)):
            each.weight[rows], each.bias[rows] = matrix @ each.weight[rows], matrix @ each.bias[rows]


def scores_and_flatness(model, objective, batch):
    scores = objective.logits(model, batch).detach()
    found = unit_trace(model, [batch], objective, seed=3).values
    return scores, found, fisher_trace(model, [batch], objective, seed=3).estimate.value


def unchanged(model, objective, batch, change, tolerance=1e-7):
    """The function and the trace of units are the same after the change, and the usual trace is not."""
    before = scores_and_flatness(model, objective, batch)
    change()
    after = scores_and_flatness(model, objective, batch)
    torch.testing.assert_close(after[0], before[0], rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(after[1], before[1], rtol=10 * tolerance, atol=0)
    assert after[2] != pytest.approx(before[2], rel=1e-6)


@pytest.mark.parametrize("name", HEADS)
def test_values_of_heads_may_be_changed_by_any_invertible_matrix(name):
    model, (objective, batch) = tiny_language_model(name), batch_of(name)
    size = getattr(model.config, "head_dim", None) or 4
    size = 2 if name == "llama" else size

    def change():
        for layer in range(2):
            change_values(model, name, layer, size)

    unchanged(model, objective, batch, change, 1e-5 if name in ("llama", "qwen3") else 1e-7)


@pytest.mark.parametrize("name", QUERIES)
def test_so_may_queries_and_keys_without_rotating_positions(name):
    model, (objective, batch) = tiny_language_model(name), batch_of(name)
    unchanged(model, objective, batch, lambda: change_queries(model, name, 1, 4))


@torch.no_grad()
def absorb(norm, readers, factors):
    """The norm's scale times `factors`, and the maps that read it divided by them."""
    for parameter in (norm.weight, getattr(norm, "bias", None)):
        if parameter is not None:
            parameter *= factors
    for reader in readers:
        reader.weight /= factors[:, None] if type(reader).__name__ == "Conv1D" else factors


NORMS = {
    "gpt2": lambda m: (
        [(b.ln_1, [b.attn.c_attn]) for b in m.transformer.h]
        + [(b.ln_2, [b.mlp.c_fc]) for b in m.transformer.h]
    ),
    "llama": lambda m: (
        [(b.post_attention_layernorm, [b.mlp.gate_proj, b.mlp.up_proj]) for b in m.model.layers]
        + [
            (b.input_layernorm, [b.self_attn.q_proj, b.self_attn.k_proj, b.self_attn.v_proj])
            for b in m.model.layers
        ]
    ),
    "opt": lambda m: [(b.final_layer_norm, [b.fc1]) for b in m.model.decoder.layers],
    "roberta-pre-layer-norm": lambda m: [
        (b.intermediate.LayerNorm, [b.intermediate.dense]) for b in m.roberta_prelayernorm.encoder.layer
    ],
    "gpt-neox": lambda m: [(b.post_attention_layernorm, [b.mlp.dense_h_to_4h]) for b in m.gpt_neox.layers],
}


@pytest.mark.parametrize("name", NORMS)
def test_a_norms_scale_may_be_absorbed_by_what_reads_it(name):
    model, (objective, batch) = tiny_language_model(name), batch_of(name)

    def change():
        for norm, readers in NORMS[name](model):
            absorb(norm, readers, torch.linspace(0.4, 2.5, norm.weight.numel()).double())

    unchanged(model, objective, batch, change, 1e-5 if name == "llama" else 1e-7)


def test_neurons_of_a_relu_network_may_be_rescaled():
    model, (objective, batch) = tiny_language_model("opt"), batch_of("opt")
    assert model.config.activation_function == "relu"

    @torch.no_grad()
    def change():
        for block in model.model.decoder.layers:
            factors = torch.linspace(0.3, 3.0, block.fc1.weight.shape[0]).double()
            block.fc1.weight *= factors[:, None]
            block.fc1.bias *= factors
            block.fc2.weight /= factors

    unchanged(model, objective, batch, change)


def test_it_is_the_sum_over_units_of_the_rise_of_kl_along_each():
    model = tiny_model(PreLayerNormTransformer, WORDS, LENGTH)
    objective, batch = MaskedObjective(), several_masks()
    values = torch.stack([unit_trace(model, [batch], objective, seed=seed).values for seed in range(60)])
    expected = torch.zeros(len(batch), dtype=torch.float64)
    units = 0
    for name, weight, turned in rows_are_outputs(model):
        ones = unit_products(name, torch.ones_like(weight), torch.ones_like(weight)[None])
        for unit in range(ones.shape[1]):
            alone = torch.zeros_like(ones)
            alone[0, unit] = 1.0
            change = weight * inside(name, weight, alone)
            moved = {name: change.mT if turned else change}
            expected += 2 * predicted_kl(model, objective, [batch], moved).quadratic
            units += 1
    error = values.std(0) / math.sqrt(len(values))
    assert bool(((values.mean(0) - expected).abs() < 5 * error).all())
    assert units == unit_trace(model, [batch], objective).units


def inside(name, weight, chosen):
    """1 for the weights of the chosen unit: the derivative of its inner product with ones."""
    ones = torch.ones_like(weight, requires_grad=True)
    with torch.enable_grad():
        along = (unit_products(name, ones, torch.ones_like(weight)[None]) * chosen).sum()
        return torch.autograd.grad(along, ones)[0]
