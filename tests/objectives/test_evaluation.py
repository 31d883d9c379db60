from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch
from isoloss.objectives.evaluation import evaluation_mode, rows_at_once
from isoloss.objectives.predicted_logits import causal_logits, masked_logits
from tiny_language_models import CAUSAL, MASKED, PAD, TOKENS, tiny_language_model

LOGITS = dict.fromkeys(MASKED, masked_logits) | dict.fromkeys(CAUSAL, causal_logits)


def batch_of(lengths, width=5, left=False):
    """The first word of each sentence and the last are predicted, even if they are the same."""
    ids = torch.randint(2, TOKENS, (len(lengths), width), generator=torch.Generator().manual_seed(3))
    present = torch.arange(width) < torch.tensor(lengths)[:, None]
    present = present.flip(1) if left else present
    rows = torch.arange(len(lengths)).repeat_interleave(2)
    first = present.long().argmax(1)
    positions = torch.stack([first, first + torch.tensor(lengths) - 1], dim=1).flatten()
    return Batch(ids.masked_fill(~present, PAD), present, rows, positions, torch.zeros_like(rows))


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
    outside = Batch(
        batch.input_ids + TOKENS, batch.attention_mask, batch.rows, batch.positions, batch.targets
    )
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


def test_each_module_returns_to_its_own_mode_after_an_exception():
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout().eval(), nn.Linear(2, 2)))
    before = [module.training for module in model.modules()]

    def fail():
        with evaluation_mode(model):
            assert not any(module.training for module in model.modules())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [module.training for module in model.modules()] == before == [True, True, True, False, True]


def test_at_least_one_row_and_no_more_than_memory_holds():
    model = nn.Linear(100, 1000)
    assert rows_at_once(model, tokens=50, memory_bytes=1) == 1
    rows = rows_at_once(model, tokens=50, memory_bytes=10**8)
    assert rows * 50 * 1000 * 4 * 8 <= 10**8 < (rows + 1) * 50 * 1000 * 4 * 8
    assert rows_at_once(model.to(torch.float64), tokens=50, memory_bytes=10**8) == rows // 2


class Repacked(nn.Linear):
    """As bitsandbytes' layers of 4 bits are once they have brought their weights into another format."""

    support_avx512bf16_for_cpu = True

    def __init__(self) -> None:
        super().__init__(2, 2)
        self.weight.quant_state = SimpleNamespace(packing_format_for_cpu=True)

    def state_dict(self, *args, **settings):
        self.weight.quant_state.packing_format_for_cpu = False
        return super().state_dict(*args, **settings)


def test_layers_compute_by_the_weights_that_they_store_and_later_as_before():
    layer = Repacked()
    with evaluation_mode(nn.Sequential(layer)):
        assert not layer.support_avx512bf16_for_cpu
        assert not layer.weight.quant_state.packing_format_for_cpu
    assert layer.support_avx512bf16_for_cpu
