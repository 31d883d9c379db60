"""Small models of several layouts, to be put on devices or streamed to them."""

from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

TOKENS = 11
SENTENCES = [[3, 4, 5, 6], [5, 6, 7], [8, 9, 3, 4], [4, 5, 6, 7, 8]]
ENDS = {"bos_token_id": 1, "eos_token_id": 2}
SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}


def gpt2(layers=2):
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=TOKENS, n_embd=16, n_layer=layers, n_head=2, n_positions=32, **ENDS)
    )


def llama(layers=2):
    return LlamaForCausalLM(LlamaConfig(vocab_size=TOKENS, num_hidden_layers=layers, **SIZES, **ENDS))


def bert(layers=2):
    sizes = {"max_position_embeddings": 32, "num_hidden_layers": layers, **SIZES}
    return BertForMaskedLM(BertConfig(vocab_size=TOKENS, **sizes))
