"""Every architecture for which flatness is known to work, tiny, with weights drawn far from zero."""

import copy
import functools

import torch
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    ModernBertConfig,
    ModernBertForMaskedLM,
    OPTConfig,
    OPTForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaPreLayerNormConfig,
    RobertaPreLayerNormForMaskedLM,
)

from tiny_models import far_from_the_start

TOKENS, PAD = 11, 0
SPECIAL = {
    "vocab_size": TOKENS,
    "pad_token_id": PAD,
    "bos_token_id": 1,
    "eos_token_id": 1,
    "cls_token_id": 1,
    "sep_token_id": 1,
}
SHAPE = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
BERT = {**SPECIAL, **SHAPE, "max_position_embeddings": 12}
GROUPED = {**SPECIAL, **SHAPE, "num_attention_heads": 4, "num_key_value_heads": 2}

MASKED = {
    "bert": (BertForMaskedLM, BertConfig, BERT),
    "roberta": (RobertaForMaskedLM, RobertaConfig, BERT),
    "roberta-pre-layer-norm": (RobertaPreLayerNormForMaskedLM, RobertaPreLayerNormConfig, BERT),
    "albert": (AlbertForMaskedLM, AlbertConfig, {**BERT, "embedding_size": 6}),
    "distilbert": (
        DistilBertForMaskedLM,
        DistilBertConfig,
        {**SPECIAL, "dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 12, "max_position_embeddings": 12},
    ),
    "modernbert": (ModernBertForMaskedLM, ModernBertConfig, BERT),
}
CAUSAL = {
    "gpt2": (GPT2LMHeadModel, GPT2Config, {**SPECIAL, "n_embd": 8, "n_layer": 2, "n_head": 2}),
    "opt": (OPTForCausalLM, OPTConfig, {**BERT, "ffn_dim": 12, "word_embed_proj_dim": 6}),
    "gpt-neox": (GPTNeoXForCausalLM, GPTNeoXConfig, BERT),
    "llama": (LlamaForCausalLM, LlamaConfig, GROUPED),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {**GROUPED, "head_dim": 4}),
}


def tiny_language_model(name, tied=True, attention="sdpa"):
    """float64 and in evaluation mode, not shared; the global random state is left unchanged."""
    return copy.deepcopy(_built(name, tied, attention))


@functools.cache
def _built(name, tied, attention):
    model_class, config_class, settings = (MASKED | CAUSAL)[name]
    config = config_class(**settings, tie_word_embeddings=tied, attn_implementation=attention)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = model_class(config).double().eval()
    return far_from_the_start(model)
