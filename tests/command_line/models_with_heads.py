"""Folders of tiny models with the head of a task, and tables for them."""

import json
from pathlib import Path

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from isoloss.models.tokenizer import word_tokenizer
from tiny_models import far_from_the_start

LETTERS = list("abcdefgh")


def saved_model(model: PreTrainedModel, folder: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    far_from_the_start(model).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def table_of(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


BART = {
    "d_model": 8,
    **dict.fromkeys(("encoder_layers", "decoder_layers", "encoder_ffn_dim", "decoder_ffn_dim"), 1),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2),
    "bos_token_id": 1,
    "decoder_start_token_id": 2,
}
T5 = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0}
HEADS = {
    "text": (BertForSequenceClassification, BertConfig),
    "pair": (BertForSequenceClassification, BertConfig),
    "labels": (BertForSequenceClassification, BertConfig),
    "token": (BertForTokenClassification, BertConfig),
    "target": (T5ForConditionalGeneration, T5Config),
}
ROWS: dict[str, list[dict[str, object]]] = {
    "text": [
        {"text": "a b c", "label": "bad"},
        {"text": "d e", "label": "good"},
        {"text": "a", "label": "bad"},
    ],
    "pair": [
        {"premise": "a b", "hypothesis": "c", "label": "good"},
        {"premise": "d", "hypothesis": "e f g", "label": "bad"},
        {"premise": "h a", "hypothesis": "h", "label": 1},
    ],
    "labels": [
        {"text": "a b c", "labels": ["good"]},
        {"text": "d e", "labels": []},
        {"text": "f", "labels": [0, 1]},
        {"text": "g h", "labels": ["bad", "good"]},
    ],
    "token": [
        {"tokens": ["a", "b"], "tags": [0, 1]},
        {"tokens": ["c", "d", "e"], "tags": ["good", "bad", 0]},
    ],
    "target": [{"source": "a b c", "target": "d"}, {"source": "e f", "target": "g h a"}],
}


def model_with_head(head: str, folder: Path, model: PreTrainedModel | None = None, seed: int = 0) -> Path:
    """A model with random weights, or the one that is given."""
    if model is not None:
        return saved_model(model, folder, word_tokenizer(LETTERS, 8))
    kind, configuration = HEADS[head]
    size: dict[str, int] = {"vocab_size": len(LETTERS) + 3}
    bert = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    size |= T5 if head == "target" else bert
    labels: dict[str, object] = (
        {} if head == "target" else {"label2id": {"bad": 0, "good": 1}, "id2label": {0: "bad", 1: "good"}}
    )
    if head == "labels":
        labels |= {"problem_type": "multi_label_classification"}
    with torch.random.fork_rng():  # else the weights would depend on which tests came before
        torch.manual_seed(seed)
        built = kind(configuration(**size, **labels))
    return saved_model(built, folder, word_tokenizer(LETTERS, 8))
