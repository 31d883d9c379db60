"""The trace relative to units, by its definition and after reparametrisations that leave the function."""

import math
from dataclasses import replace

import pytest
import torch
from peft import LoraConfig, get_peft_model
from ragged_batches import LENGTH, WORDS, repeated, several_masks
from reparametrisations import (
    HEADS,
    NORMS,
    QUERIES,
    absorb,
    batch_of,
    change_queries,
    change_values,
    invertible,
    model_of,
    rescale_neurons,
)
from torch import nn
from transformers import (
    PerceiverConfig,
    PerceiverForMaskedLM,
    SqueezeBertConfig,
    SqueezeBertForMaskedLM,
    XLNetConfig,
    XLNetLMHeadModel,
)

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.fisher_diagonal import unit_trace
from isoloss.curvature.fisher_trace import fisher_trace
from isoloss.curvature.output_rows import output_rows, unit_products, units_of
from isoloss.errors import BadInput
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.objectives.masked import MaskedObjective
from thorough_cases import others_thorough
from tiny_language_models import BERT, SPECIAL, tiny_language_model
from tiny_models import far_from_the_start, tiny_model

ROUNDED = ("llama", "qwen3", "gemma", "nemotron", "t5")
"""Models whose norms compute in single precision."""


def test_a_parameter_that_is_one_number_is_a_unit():
    model = nn.Module()
    model.scale = nn.Parameter(torch.tensor(1.5))
    (scale,) = output_rows(model)
    assert unit_products(scale, torch.tensor([2.0, 4.0])).tolist() == [[3.0], [6.0]]


def scores_and_flatness(model, objective, batch):
    scores = objective.logits(model, batch).detach()
    found = unit_trace(model, [batch], objective, seed=3).values
    return scores, found, fisher_trace(model, [batch], objective, seed=3).estimate.value


def assert_only_the_usual_trace_changes(model, asked, change, tolerance=1e-7, least=1e-6):
    """By the largest relative changes of scores, beside 1, and of the traces of units."""
    scores, units, usual = scores_and_flatness(model, *asked)
    change()
    after = scores_and_flatness(model, *asked)
    assert ((after[0] - scores).abs() / (1 + scores.abs())).max() <= tolerance
    assert ((after[1] - units).abs() / units.abs()).max() <= 10 * tolerance
    assert abs(after[2] - usual) / usual > least


@pytest.mark.parametrize("name", others_thorough(dict.fromkeys(["bert", "gemma", *HEADS]), quick=2))
def test_values_of_heads_may_be_changed_by_any_invertible_matrix(name):
    model = model_of(name)
    size = getattr(model.config, "head_dim", None) or 4
    size = 2 if name == "llama" else size

    def change():
        for layer in range(2):
            change_values(model, name, layer, size)

    assert_only_the_usual_trace_changes(model, batch_of(name), change, 1e-5 if name in ROUNDED else 1e-7)


@pytest.mark.parametrize("name", others_thorough(QUERIES))
def test_so_may_queries_and_keys_without_rotating_positions(name):
    model = model_of(name)
    assert_only_the_usual_trace_changes(model, batch_of(name), lambda: change_queries(model, name, 1, 4))


@pytest.mark.parametrize("name", others_thorough(NORMS))
def test_a_norms_scale_may_be_absorbed_by_what_reads_it(name):
    model = model_of(name)

    def change():
        for norm, readers in NORMS[name](model):
            absorb(norm, readers, torch.linspace(0.4, 2.5, norm.weight.numel()).double())

    assert_only_the_usual_trace_changes(model, batch_of(name), change, 1e-5 if name in ROUNDED else 1e-7)


@pytest.mark.parametrize("name", others_thorough(["gpt-neox", "llama"]))
def test_so_may_the_last_norms_by_the_output_layer_whatever_it_is_called(name):
    """GPT-NeoX calls its output layer `embed_out`, which is no table of embeddings."""
    model = tiny_language_model(name, tied=False)
    norm = model.gpt_neox.final_layer_norm if name == "gpt-neox" else model.model.norm
    factors = torch.linspace(0.4, 2.5, norm.weight.numel()).double()
    readers = [model.get_output_embeddings()]
    assert_only_the_usual_trace_changes(
        model, batch_of(name), lambda: absorb(norm, readers, factors), 1e-5, least=1e-3
    )


def test_latent_vectors_and_positions_that_perceiver_keeps_as_they_are_are_tables():
    """Of its embeddings only those of words and of their positions are torch's."""
    few = {"num_latents": 3, "d_latents": 8, "d_model": 8, "num_self_attends_per_block": 1}
    heads = {"num_self_attention_heads": 2, "num_cross_attention_heads": 2, "qk_channels": 8, "v_channels": 8}
    model = PerceiverForMaskedLM(PerceiverConfig(vocab_size=9, max_position_embeddings=5, **few, **heads))
    tables = {each.name.removeprefix("perceiver.") for each in output_rows(model) if each.row_is_unit}
    assert tables == {
        "embeddings.latents",
        "decoder.output_position_encodings.position_embeddings",
        "input_preprocessor.embeddings.weight",
        "input_preprocessor.position_embeddings.weight",
    }


@pytest.mark.thorough
def test_neurons_of_a_relu_network_may_be_rescaled():
    model = tiny_language_model("opt")
    assert model.config.activation_function == "relu"
    assert_only_the_usual_trace_changes(model, batch_of("opt"), lambda: rescale_neurons(model))


def test_so_may_xlnets_whose_matrices_have_a_dimension_for_the_heads():
    shape = {"d_model": 8, "n_layer": 2, "n_head": 2, "d_inner": 12}
    model = far_from_the_start(XLNetLMHeadModel(XLNetConfig(**SPECIAL, **shape)).double().eval())

    @torch.no_grad()
    def change():
        for layer, block in enumerate(model.transformer.layer):
            for head in range(2):
                a = invertible(4, 2 * layer + head)
                block.rel_attn.v[:, head] = block.rel_attn.v[:, head] @ a.T
                block.rel_attn.o[:, head] = block.rel_attn.o[:, head] @ torch.linalg.inv(a)

    assert_only_the_usual_trace_changes(model, batch_of("bert"), change)


@pytest.mark.thorough
def test_any_matrix_may_act_between_the_two_of_an_adapter():
    asked = LoraConfig(r=2, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True)
    model = far_from_the_start(get_peft_model(tiny_language_model("gpt2"), asked).double().eval())

    @torch.no_grad()
    def change():
        for at, module in enumerate(each for each in model.modules() if hasattr(each, "lora_A")):
            a = invertible(2, at)
            module.lora_A.default.weight.copy_(a @ module.lora_A.default.weight)
            module.lora_B.default.weight.copy_(module.lora_B.default.weight @ torch.linalg.inv(a))

    assert_only_the_usual_trace_changes(model, batch_of("gpt2"), change)


def squeezed_bert():
    """Its convolutions have four groups of two numbers, and what reads the heads is outside the attention."""
    return far_from_the_start(
        SqueezeBertForMaskedLM(SqueezeBertConfig(**BERT, embedding_size=8)).double().eval()
    )


def test_values_may_be_changed_where_the_heads_are_read_after_the_attention():
    model = squeezed_bert()

    @torch.no_grad()
    def change():
        for at, layer in enumerate(model.transformer.encoder.layers):
            value, reader = layer.attention.value, layer.post_attention.conv1d
            for group in range(0, 8, 2):
                a, numbers = invertible(2, 10 * at + group).double(), slice(group, group + 2)
                value.weight[numbers, :, 0] = a @ value.weight[numbers, :, 0]
                value.bias[numbers] = a @ value.bias[numbers]
                reader.weight[:, numbers, 0] = reader.weight[:, numbers, 0] @ torch.linalg.inv(a)

    assert_only_the_usual_trace_changes(model, batch_of("bert"), change)


def test_units_of_a_convolution_in_groups_are_those_of_the_whole_matrix_without_its_zeros():
    grouped, whole = nn.Conv1d(6, 4, 3, groups=2), nn.Conv1d(6, 4, 3)
    gradient = torch.randn(5, 4, 3, 3)

    def in_blocks(weight):
        blocks = weight.new_zeros(*weight.shape[:-3], 4, 6, 3)
        blocks[..., :2, :3, :], blocks[..., 2:, 3:, :] = weight[..., :2, :, :], weight[..., 2:, :, :]
        return blocks

    with torch.no_grad():
        whole.weight.copy_(in_blocks(grouped.weight))
    of_groups, of_whole = (output_rows(each)[0] for each in (grouped, whole))
    expected = unit_products(of_whole, in_blocks(gradient))
    torch.testing.assert_close(unit_products(of_groups, gradient), expected)


def test_an_attention_of_which_nothing_is_seen_to_read_the_heads_is_refused():
    model = squeezed_bert()
    for layer in model.transformer.encoder.layers:  # what it gives is no longer read as it is
        layer.post_attention.register_forward_pre_hook(lambda _, given: (given[0] + 0, *given[1:]))
    objective, batch = batch_of("bert")
    with pytest.raises(BadInput, match=r"the heads of transformer\.encoder\.layers\.0\.attention"):
        unit_trace(model, [batch], objective)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("attention." not in name)
    assert unit_trace(model, [batch], objective).units


DRAWS = 24


def test_it_is_the_sum_over_units_of_the_rise_of_kl_along_each():
    model = tiny_model(PreLayerNormTransformer, WORDS, LENGTH).eval()
    objective, batch = MaskedObjective(), several_masks()
    values = unit_trace(model, [repeated(batch, DRAWS)], objective, seed=0).values.view(DRAWS, -1)
    scores, derivatives = scores_and_their_derivatives(model, objective, batch)
    moved = []
    for each in units_of(model, lambda: objective.logits(model, batch)):
        for unit in indicators(each):
            moved.append(derivatives[each.name].flatten(2) @ (each.weight * unit).flatten())
    # Twice the rise of KL to second order: the variance of the change of scores under the distribution.
    p, along = scores.softmax(1), torch.stack(moved)
    rises = ((p * along.square()).sum(2) - (p * along).sum(2).square()).sum(0)
    expected = torch.stack([rises[batch.rows == sentence].mean() for sentence in range(len(batch))])
    error = values.std(0) / math.sqrt(DRAWS)
    assert bool(((values.mean(0) - expected).abs() < 5 * error).all())
    assert len(moved) == unit_trace(model, [batch], objective).units


def scores_and_their_derivatives(model, objective, batch):
    """Scores [predictions, words], and by the name of each weight theirs [predictions, words, *shape]."""
    scores, weights = objective.logits(model, batch), trainable_parameters(model)
    chosen = torch.eye(scores.numel(), dtype=scores.dtype).view(-1, *scores.shape)
    found = torch.autograd.grad(
        scores, list(weights.values()), chosen, is_grads_batched=True, materialize_grads=True
    )
    shaped = (each.view(*scores.shape, *each.shape[1:]) for each in found)
    return scores.detach(), dict(zip(weights, shaped, strict=True))


def indicators(each):
    """For each unit, 1 for its weights: the derivatives of the units' inner products with ones."""
    ones = torch.ones_like(each.weight, requires_grad=True)
    (along,) = unit_products(replace(each, weight=ones), torch.ones_like(ones)[None])
    return torch.autograd.grad(along, ones, torch.eye(len(along)).to(along), is_grads_batched=True)[0]
