"""Scores at predictions alone, and the last block at one position of each sentence, against whole models."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, BertModel

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch
from isoloss.objectives.predicted_logits import causal_logits, last_block_at, masked_logits, states_at
from thorough_cases import others_thorough
from tiny_language_models import BERT, CAUSAL, MASKED, PAD, TOKENS, tiny_language_model

LOGITS = dict.fromkeys(MASKED, masked_logits) | dict.fromkeys(CAUSAL, causal_logits)


def ids_and_mask(lengths, left=False, width=5):
    ids = torch.randint(2, TOKENS, (len(lengths), width), generator=torch.Generator().manual_seed(3))
    present = torch.arange(width) < torch.tensor(lengths)[:, None]
    present = present.flip(1) if left else present
    return ids.masked_fill(~present, PAD), present


def batch_of(lengths, left=False, width=5):
    """The first word of each sentence and the last are predicted, even if they are the same."""
    ids, present = ids_and_mask(lengths, left, width)
    rows = torch.arange(len(lengths)).repeat_interleave(2)
    first = present.long().argmax(1)
    positions = torch.stack([first, first + torch.tensor(lengths) - 1], dim=1).flatten()
    return Batch(ids, present, rows, positions, torch.zeros_like(rows))


def last_of_each(batch):
    return replace(batch, rows=batch.rows[1::2], positions=batch.positions[1::2], targets=batch.targets[1::2])


TWO_EACH = [batch_of([5, 5]), batch_of([5, 1, 3]), batch_of([2, 5], left=True), batch_of([1, 1], width=1)]


@pytest.mark.parametrize("name", LOGITS)
def test_scores_are_the_whole_models_and_the_head_runs_at_predictions_alone(name):
    model = tiny_language_model(name)
    read = []
    model.get_output_embeddings().register_forward_hook(lambda _, args, __: read.append(args[0]))
    for batch in TWO_EACH + [last_of_each(batch) for batch in TWO_EACH]:
        read.clear()
        with torch.no_grad():
            scores = LOGITS[name](model, batch)
            assert read[0].shape[:-1].numel() == len(batch.rows)
            whole = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
        torch.testing.assert_close(scores, whole[batch.rows, batch.positions], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "last_gain"),
    [
        ("bert", "bert.encoder.layer.1.output.LayerNorm"),
        ("roberta-pre-layer-norm", "roberta_prelayernorm.encoder.layer.1.intermediate.LayerNorm"),
    ],
)
def test_where_each_sentence_has_one_prediction_the_last_block_runs_there_alone(name, last_gain):
    model = tiny_language_model(name)
    read = []
    model.get_submodule(last_gain).register_forward_hook(lambda _, args, __: read.append(args[0].shape[:2]))
    two_each = batch_of([5, 3])
    LOGITS[name](model, two_each)
    LOGITS[name](model, last_of_each(two_each))
    assert read == [(2, 5), (2, 1)]


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_no_hook_stays(name):
    model = tiny_language_model(name)
    batch = batch_of([5, 5])
    outside = replace(batch, input_ids=batch.input_ids + TOKENS)
    LOGITS[name](model, batch)
    for each in (outside, last_of_each(outside)):
        with pytest.raises(BadInput, match=r"cannot read sentences of \d+ tokens \(index out of range"):
            LOGITS[name](model, each)
    assert not any(module._forward_hooks for module in model.modules())
    assert "forward" not in vars(model.base_model)


def test_a_model_without_a_language_head_is_refused():
    config = BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    with pytest.raises(BadInput, match="BertModel gives no scores of words"):
        masked_logits(BertModel(config), batch_of([5, 5]))


@pytest.mark.parametrize("name", MASKED)
def test_a_model_that_reads_both_ways_predicts_no_next_words(name):
    with pytest.raises(BadInput, match="reads sentences both ways"):
        causal_logits(tiny_language_model(name), batch_of([5, 5]))


LAYOUTS = ("bert", "roberta-pre-layer-norm")
SENTENCES = (
    ([5, 5, 5], False),
    ([5, 1, 3, 2], False),
    ([2, 5, 4], True),
    ([1], False),
    ([5, 2, 5, 4, 3], False),  # as many as there are positions
)
"""Their lengths, and whether they are padded on the left."""


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


@pytest.mark.parametrize(
    ("tied", "attention"),
    others_thorough([(True, "sdpa"), (False, "eager"), (True, "eager"), (False, "sdpa")], quick=2),
)
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
    ids, present = ids_and_mask([5, 1, 3, 2])
    assert_the_same(model, ids, present, positions_of(present), 1e-6)


@pytest.mark.parametrize("name", LAYOUTS)
def test_second_derivatives_are_those_of_the_whole_model(name):
    model = tiny_language_model(name, attention="eager")
    ids, present = ids_and_mask([5, 2, 4])
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
    ids, _ = ids_and_mask([5])
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
