"""The part of a model that a parameter's name is of, for names as `transformers` has them."""

import pytest

from isoloss.curvature.derivatives import parameter_group
from isoloss.measurements.sensitivity import kind_of, layer_of

PARTS = {
    "model.shared.weight": "embeddings",
    "shared.weight": "embeddings",
    "transformer.tokens_embed.weight": "embeddings",
    "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": "layer 1 attention",
    "encoder.block.1.layer.1.DenseReluDense.wi_0.weight": "layer 2 MLP",
    "encoder.block.1.layer.1.layer_norm.weight": "layer 2 norms",
    "encoder.final_layer_norm.weight": "final norm",
    "decoder.block.0.layer.0.SelfAttention.q.weight": "decoder layer 1 attention",
    "decoder.block.0.layer.1.EncDecAttention.v.weight": "decoder layer 1 cross-attention",
    "decoder.final_layer_norm.weight": "decoder final norm",
    "decoder.weight": "head",
    "model.decoder.layers.2.encoder_attn_layer_norm.bias": "decoder layer 3 norms",
    "model.decoder.layers.2.encoder_attn.k_proj.bias": "decoder layer 3 cross-attention",
    "model.encoder.layers.2.fc1.weight": "layer 3 MLP",
    "transformer.blocks.0.norm_1.weight": "layer 1 norms",
    "transformer.blocks.0.norm_attn_norm.attn.Wqkv.weight": "layer 1 attention",
    "transformer.attentions.4.q_lin.weight": "layer 5 attention",
    "transformer.ffns.4.lin1.bias": "layer 5 MLP",
    "transformer.layer_norm2.4.weight": "layer 5 norms",
    "rwkv.blocks.0.pre_ln.weight": "layer 1 norms",
    "backbone.layers.3.mixer.A_log": "layer 4 mixer",
    "backbone.layers.3.mixer.norm.weight": "layer 4 norms",
    "backbone.layers.3.mixer.up_proj.weight": "layer 4 MLP",
    "backbone.norm_f.weight": "final norm",
    "model.layers.1.mamba.in_proj.weight": "layer 2 mixer",
    "model.layers.1.block_sparse_moe.experts.0.w1.weight": "layer 2 MLP",
    "lm_loss.bias": "head",
    "bert.pooler.dense.weight": "pooler",
    "pooler.dense.bias": "pooler",
    "model.layers.0.input_layernorm.modules_to_save.default.weight": "layer 1 norms",
    "model.layers.0.input_layernorm.ln_tuning_layers.default.weight": "layer 1 norms",
    "model.norm.modules_to_save.default.weight": "final norm",
    "decoder.modules_to_save.default.weight": "head",
}


@pytest.mark.parametrize(("name", "part"), PARTS.items())
def test_each_parameter_is_of_its_part(name: str, part: str) -> None:
    assert parameter_group(name) == part


def test_layers_of_encoder_and_decoder_are_told_apart() -> None:
    assert layer_of("encoder.block.0.layer.0.SelfAttention.q.weight") == "layer 1"
    assert layer_of("decoder.block.0.layer.0.SelfAttention.q.weight") == "decoder layer 1"
    assert kind_of("encoder.block.3.layer.0.SelfAttention.q.weight") == "layer.SelfAttention.q.weight"
    assert kind_of("decoder.block.3.layer.0.SelfAttention.q.weight") == "decoder layer.SelfAttention.q.weight"
    assert kind_of("model.decoder.layers.0.fc1.weight") == "decoder fc1.weight"
