"""A tiny random model of every type in the masked and causal mappings of `transformers`."""

from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from isoloss.models.loading import LanguageObjective

TYPES: dict[LanguageObjective, tuple[str, ...]] = {
    "masked": tuple(MODEL_FOR_MASKED_LM_MAPPING_NAMES),
    "causal": tuple(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES),
}
TOKENS, FIRST_WORD, PAD, MASK = 40, 10, 0, 4

SIZES: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "decoder_vocab_size"), TOKENS),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "emb_dim", "dim", "embedding_size"), 16),
    **dict.fromkeys(("embedding_dim", "attention_hidden_size", "hidden_size_global", "lru_width"), 16),
    **dict.fromkeys(("pooler_hidden_size", "word_embed_proj_dim", "input_embedding_size"), 16),
    **dict.fromkeys(("output_embedding_size", "prediction_head_size", "ple_embed_dim"), 16),
    **dict.fromkeys(("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim", "dff"), 24),
    **dict.fromkeys(("dim_ff", "hidden_dim", "d_inner", "ffn_hidden_size", "feed_forward_size"), 24),
    **dict.fromkeys(("intermediate_size_mlp", "dense_intermediate_size"), 24),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 8),
    **dict.fromkeys(("shared_experts_intermediate_size", "shared_intermediate_size"), 8),
    **dict.fromkeys(("moe_shared_expert_intermediate_size", "expert_ffn_hidden_size"), 8),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_encoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "num_kv_heads"), 4),
    **dict.fromkeys(("num_encoder_attention_heads", "num_decoder_attention_heads"), 4),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads", "linear_num_heads"), 2),
    **dict.fromkeys(("swa_num_attention_heads", "index_n_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "swa_num_key_value_heads", "n_mamba_heads"), 2),
    **dict.fromkeys(("head_dim", "d_head", "dim_head", "kv_channels", "swa_head_dim"), 4),
    "attention_head_size": 4,
    **dict.fromkeys(("v_head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "rotary_dim"), 4),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "linear_head_dim"), 4),
    **dict.fromkeys(("qk_head_dim", "index_head_dim"), 8),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "o_lora_rank", "laurel_rank", "time_step_rank"), 8),
    **dict.fromkeys(("hidden_size_per_layer_input", "mamba_dt_rank", "adapter_rank", "hc_lowrank"), 8),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k"), 2),
    **dict.fromkeys(("n_group", "topk_group", "num_expert_group", "n_shared_experts"), 1),
    **dict.fromkeys(("num_shared_experts", "moe_num_shared_experts", "n_groups", "o_groups"), 1),
    **dict.fromkeys(("zero_expert_num", "hc_mult", "hc_count", "first_k_dense_replace"), 2),
    **dict.fromkeys(("mamba_d_state", "state_size", "ssm_state_size"), 4),
    **dict.fromkeys(("mamba_n_heads", "mamba_num_heads"), 4),
    **dict.fromkeys(("mamba_d_head", "mamba_head_dim", "mamba_headdim"), 8),
    **dict.fromkeys(("mamba_chunk_size", "chunk_size"), 8),
    **dict.fromkeys(("index_topk", "index_topk_blocks", "keep_window_size"), 8),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "context_length"), 48),
    **dict.fromkeys(("model_max_length", "max_target_positions", "max_source_positions"), 48),
    **dict.fromkeys(("router_hidden_size", "d_rel", "rel_extent", "gated_norm_rank"), 8),
}  # fmt: skip
"""Sizes by their names in configurations; those that a type lacks are left out."""

NOISE = {"longformer": 0.02}
"""Added to the weights at the start; Longformer masks by the lowest number, which larger scores overflow."""

CAUSAL_SWITCHES = {"is_decoder": True, "causal": True}


def tiny_language_model(model_type: str, prediction: LanguageObjective) -> PreTrainedModel:
    """float32, in evaluation mode, weights far from their small start; leaves the random state unchanged."""
    config = tiny_configuration(model_type, prediction)
    kind = AutoModelForMaskedLM if prediction == "masked" else AutoModelForCausalLM
    generator = torch.Generator().manual_seed(1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: PreTrainedModel = kind.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point():
                noise = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
                parameter += NOISE.get(model_type, 0.2) * noise
    return model.float().eval()


def tiny_configuration(model_type: str, prediction: LanguageObjective) -> PreTrainedConfig:
    """The type's own configuration with those of `SIZES` that it has, and `ODD` for special requirements."""
    config_class = CONFIG_MAPPING[model_type]
    settings = _shrunk(config_class) | ODD.get(model_type, {})
    if prediction == "causal":
        known = _defaults(config_class)
        settings |= {name: value for name, value in CAUSAL_SWITCHES.items() if name in known}
    return config_class(**settings)


def _shrunk(config_class: type[PreTrainedConfig]) -> dict[str, Any]:
    defaults = _defaults(config_class)
    settings: dict[str, Any] = {}
    for name, value in defaults.items():
        if isinstance(value, dict) and value.get("model_type") in CONFIG_MAPPING:
            part = value["model_type"]
            settings[name] = {"model_type": part, **_shrunk(CONFIG_MAPPING[part]), **ODD.get(part, {})}
        elif isinstance(value, dict) and name in config_class.sub_configs:
            part_class = config_class.sub_configs[name]
            settings[name] = _shrunk(part_class) | ODD.get(part_class.model_type, {})
        elif name.endswith(("token_id", "token_index")):
            settings[name] = PAD if name == "pad_token_id" else 1 + len(name) % 3
        elif name in SIZES and (value is not None or name in ("vocab_size", "head_dim")):
            settings[name] = SIZES[name]
    if "kv_lora_rank" in defaults and "num_key_value_heads" in defaults:  # has a key for each head
        settings["num_key_value_heads"] = SIZES["num_attention_heads"]
    return settings | _layers(defaults)


def _layers(defaults: dict[str, Any]) -> dict[str, Any]:
    """A layer of each kind, if the kinds are listed."""
    listed = [name for name in ("layer_types", "mlp_layer_types", "layers_block_type") if defaults.get(name)]
    kinds = {name: list(dict.fromkeys(defaults[name])) for name in listed}
    number = max(2, *(len(each) for each in kinds.values())) if kinds else 2
    filled = {name: each + each[-1:] * (number - len(each)) for name, each in kinds.items()}
    return {**filled, "num_hidden_layers": number} if filled else {}


def _defaults(config_class: type[PreTrainedConfig]) -> dict[str, Any]:
    defaults: dict[str, Any] = config_class().to_dict()
    return defaults


NO_ATTENTION = ["linear_attention", "full_attention"]
ODD: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [1]},
    "blt": {"encoder_hash_byte_group_vocab": 30},
    "cohere_compass_text": {
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 0]}
        }
    },
    "dots3_note_text": {"num_key_value_heads": 4},
    "dbrx": {
        "attn_config": {"rope_theta": 10000.0, "kv_n_heads": 2, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "esmc": {"num_key_value_heads": 4},
    "falcon_h1": {"mamba_d_ssm": 32},
    "funnel": {"block_sizes": [1, 1], "d_head": 4},
    "gemma3n_text": {"num_kv_shared_layers": 0, "layer_types": ["sliding_attention", "full_attention"]},
    "gemma4_text": {"hidden_size_per_layer_input": 0},
    "gemma4_unified_text": {"num_kv_shared_layers": 0},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "granitemoehybrid": {"layer_types": NO_ATTENTION},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "longformer": {"attention_window": 4},
    "luke": {"entity_vocab_size": 5, "entity_emb_size": 8},
    "mamba2": {"num_heads": 4, "head_dim": 8},
    "nemotron": {"num_key_value_heads": 4},
    "neomme": {"head_dim": 16},
    "perceiver": {
        "num_latents": 8,
        "d_latents": 16,
        "num_self_attends_per_block": 1,
        "num_self_attention_heads": 2,
        "num_cross_attention_heads": 2,
        "qk_channels": 8,
        "v_channels": 16,
    },
    "qwen4_exp_text": {
        "indexer_n_heads": 2,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 8,
        "indexer_budget": 16,
        "indexer_compress_ratio": 4,
        "ngram_vocab_size_base": 50,
    },
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {
        "axial_pos_shape": [8, 6],
        "axial_pos_embds_dim": [8, 8],
        "attn_layers": ["local", "lsh"],
        "local_attn_chunk_length": 8,
        "lsh_attn_chunk_length": 8,
        "num_buckets": 2,
        "hash_seed": 0,
    },
    "roc_bert": {
        "pronunciation_vocab_size": 40,
        "pronunciation_embed_dim": 8,
        "shape_vocab_size": 40,
        "shape_embed_dim": 8,
    },
    "xlstm": {"num_heads": 2, "chunk_size": 4, "mlstm_round_up_to_multiple_of": 8},
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "linear_attention", "hybrid", "hybrid"],
        "attention_hidden_size": 32,
        "attention_head_dim": 8,
    },
    "zamba2": {"attention_hidden_size": 32, "attention_head_dim": 8, "mamba_headdim": 16},
    "zaya": {"num_experts_per_tok": 1},
}
"""What some types need in addition to their sizes."""
