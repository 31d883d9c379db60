"""Tiny causal models of three families with random weights, and their probabilities by full passes."""

from dataclasses import replace

import torch
from tokenizers import Tokenizer, models
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    PreTrainedTokenizerFast,
)

from isoloss.inference.causal_model import TokenRestriction
from isoloss.models.causal_language import restricted_language

TOKENS, BOS = 40, 1
SPECIAL = {"bos_token_id": BOS, "eos_token_id": BOS, "pad_token_id": 0, "vocab_size": TOKENS}
MODELS = {
    "gpt2": lambda attention: GPT2LMHeadModel(
        GPT2Config(
            **SPECIAL, n_embd=16, n_layer=2, n_head=2, initializer_range=0.4, attn_implementation=attention
        )
    ),
    # The embeddings of OPT-350M are narrower than its layers.
    "opt": lambda attention: OPTForCausalLM(
        OPTConfig(
            **SPECIAL,
            hidden_size=16,
            word_embed_proj_dim=8,
            num_hidden_layers=2,
            num_attention_heads=2,
            ffn_dim=24,
            init_std=0.4,
            attn_implementation=attention,
        )
    ),
    # Two heads share their keys and values, as in SmolLM2.
    "llama": lambda attention: LlamaForCausalLM(
        LlamaConfig(
            **SPECIAL,
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            initializer_range=0.4,
            attn_implementation=attention,
        )
    ),
}
CHOSEN = (5, 39, 17, 2, 30, 8, 11)
"""The tokens that are the language's words."""


def tiny_causal_model(kind, dtype=torch.float64, attention="sdpa"):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return MODELS[kind](attention).to(dtype).eval()


def tiny_language(kind, length=6, dtype=torch.float64, memory_bytes=1 << 26):
    words = tuple("abcdefg")
    restriction = TokenRestriction(CHOSEN, words, BOS, "by hand")
    language = restricted_language(tiny_causal_model(kind, dtype), restriction, length)
    return replace(language, memory_bytes=memory_bytes)


def tiny_tokenizer():
    """A tokenizer for these models' tokens, each a number after a space."""
    pieces = {"<pad>": 0, "<s>": 1} | {f"Ġ{number}": number for number in range(2, TOKENS)}
    fast = Tokenizer(models.WordLevel(pieces, unk_token="<pad>"))
    return PreTrainedTokenizerFast(tokenizer_object=fast, bos_token="<s>", eos_token="<s>", pad_token="<pad>")


def tiny_checkpoint(kind, folder):
    """A model and its tokenizer in the format of `AutoModelForCausalLM` and `AutoTokenizer`."""
    tiny_causal_model(kind, torch.float32).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def joint_log_probabilities(model, ids):
    """log Pr of each whole sentence [n, T] of word numbers, by one full forward pass over all tokens."""
    tokens = torch.tensor(CHOSEN)[ids]
    read = torch.cat([torch.full((len(ids), 1), BOS), tokens], dim=1)
    with torch.no_grad():
        scores = model(input_ids=read, use_cache=False).logits[:, :-1]
    log_probabilities = scores[..., list(CHOSEN)].double().log_softmax(2)
    return log_probabilities.gather(2, ids[..., None])[..., 0].sum(1)


def masked_distributions_by_full_passes(model, sentence):
    """[T, K]: every word substituted at every position, one full forward pass over all T K sentences."""
    length, words = len(sentence), len(CHOSEN)
    tried = sentence.repeat(length, words, 1)
    for place in range(length):
        tried[place, :, place] = torch.arange(words)
    return joint_log_probabilities(model, tried.flatten(0, 1)).view(length, words).log_softmax(1)
