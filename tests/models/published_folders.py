"""Tiny models to be saved as they are published, and changes of their folders."""

import json

from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForPreTraining,
    BertModel,
    DistilBertConfig,
    DistilBertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    RobertaConfig,
    RobertaForMaskedLM,
    T5Config,
    T5ForConditionalGeneration,
)

SIZE = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
BERT = BertConfig(vocab_size=20, **SIZE)
MODELS = {
    "bert": lambda: BertForMaskedLM(BERT),
    "pretrained": lambda: BertForPreTraining(BERT),
    "encoder": lambda: BertModel(BERT),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2)),
    "roberta": lambda: RobertaForMaskedLM(RobertaConfig(vocab_size=20, type_vocab_size=1, **SIZE)),
    "distilbert": lambda: DistilBertForMaskedLM(
        DistilBertConfig(vocab_size=20, dim=8, n_layers=1, n_heads=2, hidden_dim=8)
    ),
    "t5": lambda: T5ForConditionalGeneration(
        T5Config(vocab_size=20, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    ),
}


def configure(folder, **changes):
    path = folder / "config.json"
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))
