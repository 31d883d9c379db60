"""The pre-LN transformer's gradient as it is written out, against autograd on the whole model."""

import pytest
import torch
from torch import nn
from transformers import RobertaPreLayerNormConfig, RobertaPreLayerNormForMaskedLM

from isoloss.models.fused_training import can_be_fused, fused_scores
from isoloss.models.shapes import Shape
from isoloss.models.transformers import (
    GPT2Transformer,
    PostLayerNormTransformer,
    PreLayerNormTransformer,
)

WORDS, LONGEST = 9, 6
SHAPES = {
    "one block": Shape(8, heads=2, layers=1, inner_width=12),
    "two blocks": Shape(12, heads=3, layers=2, inner_width=20),
    "three blocks of one head": Shape(6, heads=1, layers=3, inner_width=24),
}
LENGTHS = {"one length": [6, 6, 6, 6], "ragged": [6, 1, 4, 2], "one sentence": [5]}


def built(architecture, dtype=torch.float64):
    """A model whose weights, norms and biases included, are far from where they start."""
    model = architecture.build(WORDS, LONGEST, seed=0).to(dtype).train()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.4 * torch.randn(parameter.shape, generator=generator, dtype=dtype)
    return model


def pre_layer_norm(shape=SHAPES["two blocks"], dropout=0.0, attention="eager"):
    return PreLayerNormTransformer(shape, dropout=dropout, attention=attention)


def sentences(lengths, left=False):
    """Token numbers, what is not padding (None: everything), and one position of each sentence."""
    generator = torch.Generator().manual_seed(2)
    counts = torch.tensor(lengths)
    present = torch.arange(max(lengths)) < counts[:, None]
    positions = (torch.rand(len(lengths), generator=generator) * counts).long()
    if left:
        present, positions = present.flip(1), max(lengths) - 1 - positions
    ids = torch.randint(1, WORDS, present.shape, generator=generator).masked_fill(~present, 0)
    return ids, None if present.all() else present, positions


def whole_scores(model, ids, mask, positions):
    return model(input_ids=ids, attention_mask=mask).logits[torch.arange(len(ids)), positions]


def gradients(model, scores):
    cotangents = torch.randn(scores.shape, generator=torch.Generator().manual_seed(3)).to(scores.dtype)
    model.zero_grad()
    (scores * cotangents).sum().backward(retain_graph=True)
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def assert_the_same(model, inputs, of_scores=1e-12, relative=1e-10, absolute=1e-13):
    """`absolute` is a share of the largest gradient."""
    found, expected = fused_scores(model, *inputs), whole_scores(model, *inputs)
    torch.testing.assert_close(found, expected, rtol=of_scores, atol=of_scores)
    of_found, of_whole = gradients(model, found), gradients(model, expected)
    largest = max(float(gradient.abs().max()) for gradient in of_whole.values())
    for name, gradient in of_whole.items():
        torch.testing.assert_close(of_found[name], gradient, rtol=relative, atol=absolute * largest, msg=name)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_scores_and_every_gradient_are_those_of_the_whole_model(shape, lengths):
    assert_the_same(built(pre_layer_norm(shape)), sentences(lengths))


def test_so_they_are_with_padding_on_the_left():
    assert_the_same(built(pre_layer_norm()), sentences(LENGTHS["ragged"], left=True))


def test_so_they_are_with_a_large_epsilon_segments_and_an_untied_head():
    settings = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
    config = RobertaPreLayerNormConfig(
        vocab_size=WORDS, pad_token_id=0, type_vocab_size=3, layer_norm_eps=0.1, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, tie_word_embeddings=False, attn_implementation="eager", **settings,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = RobertaPreLayerNormForMaskedLM(config).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(4))
    assert can_be_fused(model)
    inputs = sentences(LENGTHS["ragged"])
    scores = (fused_scores(model, *inputs), whole_scores(model, *inputs))
    torch.testing.assert_close(*scores, rtol=1e-12, atol=1e-12)
    trained = [p for name, p in model.named_parameters() if "token_type" not in name]
    found, expected = (
        torch.autograd.grad(each.square().sum(), trained, materialize_grads=True) for each in scores
    )
    for of_found, of_whole in zip(found, expected, strict=True):
        torch.testing.assert_close(of_found, of_whole, rtol=1e-10, atol=1e-10)


def test_in_single_precision_they_differ_by_rounding():
    model = built(pre_layer_norm(), torch.float32)
    assert_the_same(model, sentences(LENGTHS["ragged"]), of_scores=1e-5, relative=1e-4, absolute=1e-5)


def test_scores_so_large_that_their_exponentials_overflow_are_no_trouble():
    model = built(pre_layer_norm())
    with torch.no_grad():
        for block in model.base_model.encoder.layer:
            block.attention.self.query.weight *= 1e4
    inputs = sentences(LENGTHS["ragged"])
    found, expected = fused_scores(model, *inputs), whole_scores(model, *inputs)
    torch.testing.assert_close(found, expected)
    for of_found, of_whole in zip(
        gradients(model, found).values(), gradients(model, expected).values(), strict=True
    ):
        torch.testing.assert_close(of_found, of_whole, atol=1e-7, rtol=1e-6)


def test_a_gradient_is_taken_as_often_as_asked_for():
    model = built(pre_layer_norm())
    scores = fused_scores(model, *sentences(LENGTHS["one length"]))
    first, second = gradients(model, scores), gradients(model, scores)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_it_is_differentiated_once_only():
    model = built(pre_layer_norm())
    scores = fused_scores(model, *sentences(LENGTHS["one length"]))
    weight = model.base_model.encoder.layer[0].output.dense.weight
    (gradient,) = torch.autograd.grad(scores.sum(), weight, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def changed(change):
    model = built(pre_layer_norm())
    change(model)
    return model


def in_another_class(model):
    class OtherLinear(nn.Linear):
        pass

    model.base_model.encoder.layer[0].output.dense.__class__ = OtherLinear


OTHERWISE = {
    "a forward hook": lambda model: inner(model).register_forward_hook(lambda *_: None),
    "a hook before": lambda model: inner(model).register_forward_pre_hook(lambda *_: None),
    "a backward hook": lambda model: inner(model).register_full_backward_hook(lambda *_: None),
    "a backward hook before": lambda model: inner(model).register_full_backward_pre_hook(lambda *_: None),
    "another forward": lambda model: setattr(inner(model), "forward", lambda states: states),
    "another class": in_another_class,
    "dropout": lambda model: setattr(model.base_model.encoder.layer[1].output.dropout, "p", 0.1),
    "another epsilon": lambda model: setattr(model.base_model.LayerNorm, "eps", 1e-5),
    "another padding token": lambda model: setattr(model.config, "pad_token_id", 1),
    "another activation": lambda model: setattr(model.config, "hidden_act", "relu"),
    "another device": lambda model: model.to("meta"),
}


def inner(model):
    return model.base_model.encoder.layer[0].output.dense


@pytest.mark.parametrize("change", OTHERWISE.values(), ids=OTHERWISE)
def test_a_model_that_was_changed_is_left_to_autograd(change):
    assert can_be_fused(changed(lambda model: None))
    assert not can_be_fused(changed(change))


@pytest.mark.parametrize(
    "build",
    [
        lambda: built(pre_layer_norm(dropout=0.1)),
        lambda: built(pre_layer_norm(attention="sdpa")),
        lambda: built(PostLayerNormTransformer(SHAPES["two blocks"], dropout=0.0, attention="eager")),
        lambda: built(GPT2Transformer(SHAPES["two blocks"], dropout=0.0, attention="eager")),
        lambda: built(pre_layer_norm()).base_model,
        lambda: nn.Linear(2, 2),
    ],
)
def test_other_models_are_left_to_autograd(build):
    assert not can_be_fused(build())
