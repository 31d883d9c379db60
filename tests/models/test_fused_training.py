"""The pre-LN transformer's gradient as it is written out, against autograd on the whole model."""

import pytest
import torch
from torch import nn
from transformers import RobertaPreLayerNormConfig, RobertaPreLayerNormForMaskedLM

from isoloss.models.fused_training import FusedTransformer, can_be_fused
from isoloss.models.transformers import (
    GPT2Transformer,
    PostLayerNormTransformer,
    PreLayerNormTransformer,
    Shape,
)
from tiny_models import far_from_the_start

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
    return far_from_the_start(model, by=0.4)


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


def gradients(model):
    """Those of the parameters that have one."""
    return {name: each.grad for name, each in model.named_parameters() if each.grad is not None}


def fused_scores_and_gradients(model, *inputs):
    """As `scores_and_gradients` of the whole model, without autograd."""
    model.zero_grad()
    scores, add_gradient = FusedTransformer(model).scores(*inputs)
    add_gradient(cotangents(scores))
    return scores, gradients(model)


def scores_and_gradients(model, *inputs):
    model.zero_grad()
    scores = whole_scores(model, *inputs)
    (scores * cotangents(scores)).sum().backward()
    return scores.detach(), gradients(model)


def cotangents(scores):
    return torch.randn(scores.shape, generator=torch.Generator().manual_seed(3)).to(scores.dtype)


def assert_the_same(model, inputs, of_scores=1e-12, relative=1e-10, absolute=1e-13):
    """`absolute` is a share of the largest gradient."""
    found, of_found = fused_scores_and_gradients(model, *inputs)
    expected, of_whole = scores_and_gradients(model, *inputs)
    torch.testing.assert_close(found, expected, rtol=of_scores, atol=of_scores)
    assert of_found.keys() == of_whole.keys()
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
    far_from_the_start(model, seed=4)
    assert can_be_fused(model)
    assert_the_same(model, sentences(LENGTHS["ragged"]))


def test_in_single_precision_they_differ_by_rounding():
    model = built(pre_layer_norm(), torch.float32)
    assert_the_same(model, sentences(LENGTHS["ragged"]), of_scores=1e-5, relative=1e-4, absolute=1e-5)


def test_scores_so_large_that_their_exponentials_overflow_are_no_trouble():
    model = built(pre_layer_norm())
    with torch.no_grad():
        for block in model.base_model.encoder.layer:
            block.attention.self.query.weight *= 1e4
    assert_the_same(model, sentences(LENGTHS["ragged"]), of_scores=1e-6, relative=1e-6, absolute=1e-7)


def test_gradients_are_added_to_those_of_earlier_batches():
    model = built(pre_layer_norm())
    _, once = fused_scores_and_gradients(model, *sentences(LENGTHS["ragged"]))
    once = {name: gradient.clone() for name, gradient in once.items()}
    scores, add_gradient = FusedTransformer(model).scores(*sentences(LENGTHS["ragged"]))
    add_gradient(cotangents(scores))
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, 2 * once[name], rtol=1e-12, atol=1e-14, msg=name)


def test_a_frozen_parameter_gets_no_gradient():
    model = built(pre_layer_norm())
    frozen = model.base_model.encoder.layer[0].output.dense.weight.requires_grad_(False)
    _, found = fused_scores_and_gradients(model, *sentences(LENGTHS["one length"]))
    assert found.keys() == {name for name, each in model.named_parameters() if each is not frozen}


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
    "another padding token": lambda model: setattr(model.base_model.embeddings, "padding_idx", 1),
    "another approximation of GELU": lambda model: setattr(
        model.base_model.encoder.layer[0].intermediate, "intermediate_act_fn", nn.GELU("tanh")
    ),
    "another dropout": lambda model: setattr(
        model.base_model.encoder.layer[0].output, "dropout", nn.AlphaDropout(0.0)
    ),
    "no bias": lambda model: inner(model).register_parameter("bias", None),
    "weights in another order": lambda model: setattr(
        inner(model).weight, "data", inner(model).weight.data.t().contiguous().t()
    ),
    "norms of embeddings": lambda model: setattr(
        model.base_model.embeddings.word_embeddings, "max_norm", 1.0
    ),
    "another activation": lambda model: setattr(model.config, "hidden_act", "relu"),
    "a hook of a weight": lambda model: inner(model).weight.register_hook(lambda _: None),
    "a hook after a weight's gradient": lambda model: inner(model).weight.register_post_accumulate_grad_hook(
        lambda _: None
    ),
    "another device": lambda model: model.to("meta"),
}


def inner(model):
    return model.base_model.encoder.layer[0].output.dense


def test_a_model_that_is_as_it_was_made_is_fused():
    assert can_be_fused(changed(lambda model: None))


@pytest.mark.parametrize("change", OTHERWISE.values(), ids=OTHERWISE)
def test_a_model_that_was_changed_is_left_to_autograd(change):
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
