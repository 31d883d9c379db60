"""The last block at one position of each sentence, against the whole forward pass of `transformers`."""

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM

from isoloss.objectives.chosen_positions import last_block_at, states_at
from tiny_language_models import BERT, PAD, TOKENS, tiny_language_model

LAYOUTS = ("bert", "roberta-pre-layer-norm")
SENTENCES = (
    ([5, 5, 5], False),
    ([5, 1, 3, 2], False),
    ([2, 5, 4], True),
    ([1], False),
    ([5, 2, 5, 4, 3], False),  # as many as there are positions
)
"""Their lengths, and whether they are padded on the left."""


def ids_and_mask(lengths, left, width=5):
    ids = torch.randint(2, TOKENS, (len(lengths), width), generator=torch.Generator().manual_seed(3))
    present = torch.arange(width) < torch.tensor(lengths)[:, None]
    present = present.flip(1) if left else present
    return ids.masked_fill(~present, PAD), present


def positions_of(present, seed=4):
    """One of each sentence's own words."""
    uniform = torch.rand(present.shape, generator=torch.Generator().manual_seed(seed))
    return uniform.masked_fill(~present, -1).argmax(dim=1)


def in_training_without_dropout(model):
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model.train()


def chosen_scores(model, ids, mask, positions):
    with last_block_at(model, positions, states_at(model)):
        return model(input_ids=ids, attention_mask=mask).logits[:, 0]


def whole_scores(model, ids, mask, positions):
    return model(input_ids=ids, attention_mask=mask).logits[torch.arange(len(ids)), positions]


def gradients(model, scores, cotangents):
    """For every parameter, by name."""
    model.zero_grad()
    (scores * cotangents).sum().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_the_same(model, ids, mask, positions, tolerance):
    cotangents = torch.randn(len(ids), TOKENS, generator=torch.Generator().manual_seed(5))
    found, expected = (scores(model, ids, mask, positions) for scores in (chosen_scores, whole_scores))
    assert torch.isfinite(expected).all()
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    of_found = gradients(model, found, cotangents.to(found.dtype))
    of_whole = gradients(model, expected, cotangents.to(found.dtype))
    assert of_found.keys() == of_whole.keys()
    largest = max(gradient.abs().max() for gradient in of_whole.values())
    for name, gradient in of_whole.items():
        torch.testing.assert_close(of_found[name], gradient, rtol=tolerance, atol=tolerance * float(largest))


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_scores_and_all_gradients_are_those_of_the_whole_model(name, tied, attention):
    model = in_training_without_dropout(tiny_language_model(name, tied, attention))
    for lengths, left in SENTENCES:
        ids, present = ids_and_mask(lengths, left)
        for mask in (present, present.long(), *([None] if present.all() else [])):
            assert_the_same(model, ids, mask, positions_of(present), 1e-12)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_in_single_precision_they_differ_by_rounding(name, attention):
    model = in_training_without_dropout(tiny_language_model(name, attention=attention)).float()
    ids, present = ids_and_mask([5, 1, 3, 2], left=False)
    assert_the_same(model, ids, present, positions_of(present), 1e-6)


@pytest.mark.parametrize("name", LAYOUTS)
def test_second_derivatives_are_those_of_the_whole_model(name):
    model = tiny_language_model(name, attention="eager")
    ids, present = ids_and_mask([5, 2, 4], left=False)
    positions = positions_of(present)
    parameters = list(model.parameters())
    generator = torch.Generator().manual_seed(6)
    direction = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]

    def product(scores):
        loss = scores(model, ids, present, positions).log_softmax(-1)[:, 3].sum()
        first = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
        along = sum((gradient * part).sum() for gradient, part in zip(first, direction, strict=True))
        return torch.autograd.grad(along, parameters, materialize_grads=True)

    for found, expected in zip(product(chosen_scores), product(whole_scores), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_dropout_gives_scores_of_the_same_distribution(name, attention):
    """Dropout draws other numbers; means and variances agree within five standard errors."""
    model = tiny_language_model(name, attention=attention).train()
    ids, _ = ids_and_mask([5], left=False)
    ids, positions = ids.expand(20_000, -1), torch.full((20_000,), 2)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(0)
        found, expected = (scores(model, ids, None, positions) for scores in (chosen_scores, whole_scores))
    assert found.std(dim=0).min() > 0
    for of_found, of_whole in ((found, expected), (found.square(), expected.square())):
        error = ((of_found.var(dim=0) + of_whole.var(dim=0)) / len(ids)).sqrt()
        assert ((of_found.mean(dim=0) - of_whole.mean(dim=0)).abs() < 5 * error).all()


def test_the_backbone_is_left_as_found_after_an_exception():
    model = tiny_language_model("bert")
    with pytest.raises(IndexError):
        chosen_scores(model, torch.full((1, 3), TOKENS), None, torch.tensor([0]))
    assert "forward" not in vars(model.base_model)


def decoder():
    return BertForMaskedLM(BertConfig(**BERT, is_decoder=True))


def with_a_hook_in_the_last_block():
    model = tiny_language_model("bert")
    model.bert.encoder.layer[-1].attention.self.register_forward_hook(lambda *_: None)
    return model


def with_another_last_block():
    class OtherBlock(type(tiny_language_model("bert").bert.encoder.layer[-1])):
        pass

    model = tiny_language_model("bert")
    model.bert.encoder.layer[-1] = OtherBlock(model.config)
    return model


def with_flexible_attention():
    model = tiny_language_model("bert")
    model.config._attn_implementation = "flex_attention"
    return model


@pytest.mark.parametrize(
    "build",
    [
        decoder,
        with_a_hook_in_the_last_block,
        with_another_last_block,
        with_flexible_attention,
        lambda: tiny_language_model("roberta"),
        lambda: tiny_language_model("gpt2"),
        lambda: tiny_language_model("llama"),
        lambda: nn.Linear(2, 2),
    ],
)
def test_any_other_model_runs_whole(build):
    assert states_at(build()) is None
