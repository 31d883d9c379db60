"""Biases for pairs of positions, as in T5 and MPNet, in one pass for all sentences."""

import pytest
import torch
from dense_norms import built, checked_norms
from transformers import (
    LongT5Config,
    LongT5ForConditionalGeneration,
    MPNetConfig,
    MPNetForMaskedLM,
    SwitchTransformersConfig,
    SwitchTransformersForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
    UMT5Config,
    UMT5ForConditionalGeneration,
)
from transformers.models.switch_transformers.modeling_switch_transformers import SwitchTransformersTop1Router

from isoloss.curvature.predicted_kl import measured_kl, predicted_kl
from isoloss.curvature.weight_changes import Noise, differences
from isoloss.objectives.pretrained import PretrainedMasked, masked_batch
from isoloss.objectives.task_heads import TargetToken, target_batch

TOKENS = 11
SHAPE = {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
TEXTS = [[3, 4, 5, 6], [7, 8], [9, 3, 4], [5, 5, 6, 7]]
TARGETS = [[4, 5], [6, 7, 8, 9, 1], [3, 1], [8, 8, 1]]


WITH_A_DECODER = {
    "T5": (T5ForConditionalGeneration, T5Config, 2),
    "UMT5": (UMT5ForConditionalGeneration, UMT5Config, 4),
}
"""Each with the number of its tables of relative positions."""


def is_relative(name):
    return "relative_attention_bias" in name


@pytest.mark.parametrize(
    ("name", "attention", "sentences"),
    [
        *(("T5", attention, n) for attention, n in (("eager", 4), ("sdpa", 3), ("sdpa", 1))),
        *(("UMT5", attention, n) for attention, n in (("sdpa", 4), ("eager", 3), ("eager", 1))),
    ],
)
def test_an_encoder_with_a_decoder(name, attention, sentences):
    kind, config, tables = WITH_A_DECODER[name]
    model = built(kind, config(vocab_size=TOKENS, attn_implementation=attention, **SHAPE))
    batch = target_batch(TEXTS[:sentences], TARGETS[:sentences], 0, pad=0)
    found = checked_norms(model, TargetToken(), batch, tokens=TOKENS)
    ways = [way for name, way in found.ways.items() if is_relative(name)]
    assert ways == ["relative bias" if sentences > 1 else "embedding"] * tables


@pytest.mark.parametrize("attention", ["local", "transient-global"])
def test_an_encoder_whose_words_see_blocks_of_others(attention):
    """Distances to the blocks of transient-global attention differ from sentence to sentence."""
    config = LongT5Config(
        vocab_size=TOKENS, encoder_attention_type=attention, local_radius=2, global_block_size=2, **SHAPE
    )
    model = built(LongT5ForConditionalGeneration, config)
    batch = target_batch([[3, 4, 5, 6], [7, 8, 9, 10], [9, 3, 4, 5]], [[4, 5], [6, 7], [3, 1]], 0, pad=0)
    checked_norms(model, TargetToken(), batch, tokens=TOKENS)


def test_an_encoder_alone():
    size = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
    model = built(MPNetForMaskedLM, MPNetConfig(vocab_size=TOKENS, **size))
    batch = masked_batch(TEXTS, [[1, 2], [0], [2], [0, 3]], mask=2, pad=1)
    found = checked_norms(model, PretrainedMasked(), batch, tokens=TOKENS)
    assert [way for name, way in found.ways.items() if is_relative(name)] == ["relative bias"]
    assert "per-sentence gradients" not in found.ways.values()


def test_experts_whose_router_converts_its_weights_at_every_call():
    """While mapped over sentences, or derived in forward mode, that would crash the process."""
    model = built(
        SwitchTransformersForConditionalGeneration,
        SwitchTransformersConfig(
            vocab_size=TOKENS,
            **{**SHAPE, "num_decoder_layers": 2},
            num_experts=2,
            expert_capacity=64,
            num_sparse_encoder_layers=1,
            num_sparse_decoder_layers=1,
        ),
    )
    for part in model.modules():
        if isinstance(part, SwitchTransformersTop1Router):
            part.dtype = torch.float64  # to single precision by default, in which norms have eight digits
    batch = target_batch(TEXTS, TARGETS, 0, pad=0)
    found = checked_norms(model, TargetToken(), batch, tokens=TOKENS)
    assert [way for name, way in found.ways.items() if is_relative(name)] == ["relative bias"] * 2
    assert not any("_apply" in vars(module) for module in model.modules())
    change = differences(model, Noise(1e-4))
    predicted = predicted_kl(model, TargetToken(), [batch], change).quadratic
    torch.testing.assert_close(
        predicted, measured_kl(model, TargetToken(), [batch], change), rtol=0.01, atol=0.0
    )
    assert not any("_apply" in vars(module) for module in model.modules())
