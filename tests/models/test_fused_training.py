"""The pre-LN transformer's gradient as it is written out, against autograd on the whole model."""

import pytest
import torch
from torch import nn

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


def sentences(lengths):
    """Token numbers, what is not padding (None: everything), and one position of each sentence."""
    generator = torch.Generator().manual_seed(2)
    counts = torch.tensor(lengths)
    present = torch.arange(max(lengths)) < counts[:, None]
    ids = torch.randint(1, WORDS, present.shape, generator=generator).masked_fill(~present, 0)
    positions = (torch.rand(len(lengths), generator=generator) * counts).long()
    return ids, None if present.all() else present, positions


def whole_scores(model, ids, mask, positions):
    return model(input_ids=ids, attention_mask=mask).logits[torch.arange(len(ids)), positions]


def gradients(model, scores):
    cotangents = torch.randn(scores.shape, generator=torch.Generator().manual_seed(3)).to(scores.dtype)
    model.zero_grad()
    (scores * cotangents).sum().backward(retain_graph=True)
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_scores_and_every_gradient_are_those_of_the_whole_model(shape, lengths):
    model = built(pre_layer_norm(shape))
    inputs = sentences(lengths)
    found, expected = fused_scores(model, *inputs), whole_scores(model, *inputs)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    of_found, of_whole = gradients(model, found), gradients(model, expected)
    largest = max(float(gradient.abs().max()) for gradient in of_whole.values())
    for name, gradient in of_whole.items():
        torch.testing.assert_close(of_found[name], gradient, rtol=1e-10, atol=1e-13 * largest, msg=name)


def test_in_single_precision_they_differ_by_rounding():
    model = built(pre_layer_norm(), torch.float32)
    inputs = sentences(LENGTHS["ragged"])
    found, expected = fused_scores(model, *inputs), whole_scores(model, *inputs)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    of_found, of_whole = gradients(model, found), gradients(model, expected)
    largest = max(float(gradient.abs().max()) for gradient in of_whole.values())
    for name, gradient in of_whole.items():
        torch.testing.assert_close(of_found[name], gradient, rtol=1e-4, atol=1e-5 * largest, msg=name)


def test_scores_so_large_that_their_exponentials_overflow_are_no_trouble():
    model = built(pre_layer_norm())
    with torch.no_grad():
        for block in model.base_model.encoder.layer:
            block.attention.self.query.weight *= 1e4
    inputs = sentences(LENGTHS["ragged"])
    torch.testing.assert_close(fused_scores(model, *inputs), whole_scores(model, *inputs))


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


def hooked():
    model = built(pre_layer_norm())
    model.base_model.encoder.layer[0].output.dense.register_forward_hook(lambda *_: None)
    return model


@pytest.mark.parametrize(
    "build",
    [
        hooked,
        lambda: built(pre_layer_norm(dropout=0.1)),
        lambda: built(pre_layer_norm(attention="sdpa")),
        lambda: built(PostLayerNormTransformer(SHAPES["two blocks"], dropout=0.0, attention="eager")),
        lambda: built(GPT2Transformer(SHAPES["two blocks"], dropout=0.0, attention="eager")),
        lambda: built(pre_layer_norm()).base_model,
        lambda: nn.Linear(2, 2),
    ],
)
def test_other_models_are_left_alone(build):
    assert not can_be_fused(build())
