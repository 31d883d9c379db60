"""The inputs of `isoloss flatness` in its tests: tiny models, texts and token numbers."""

import json
import random

from isoloss.models.loading import load_any_language_model
from isoloss.models.tokenizer import word_tokenizer
from isoloss.models.transformers import (
    GPT2Transformer,
    PostLayerNormTransformer,
    PreLayerNormTransformer,
    Shape,
)
from tiny_models import far_from_the_start

WORDS = list("abcdefgh")
TOKENS = len(WORDS) + 3
MASK = 2
KINDS = {"bert": PostLayerNormTransformer, "other": PostLayerNormTransformer, "pre": PreLayerNormTransformer}


def save(model, folder, tokenizer=True):
    far_from_the_start(model, by=0.2, seed=len(folder.name))
    model.save_pretrained(folder)
    if tokenizer:
        word_tokenizer(WORDS, 8).save_pretrained(folder)


def save_models(folder):
    """Folders of models, a text and a file of token numbers of 40 sentences, repeated ten times."""
    for seed, (name, architecture) in enumerate(KINDS.items()):
        save(architecture(Shape(8, 2, 1, 8)).build(len(WORDS), 8, seed), folder / name)
    save(GPT2Transformer(Shape(8, 2, 1, 8)).build(len(WORDS), 8, 3), folder / "gpt2")
    save(PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(4, 8, 0), folder / "small", tokenizer=False)
    chosen = random.Random(0)
    texts = [" ".join(chosen.choices(WORDS, k=chosen.randint(2, 5))) for _ in range(40)] * 10
    (folder / "text.txt").write_text("\n".join(texts) + "\n")
    ids = [[WORDS.index(word) + 3 for word in text.split()] for text in texts]
    (folder / "ids.jsonl").write_text("".join(json.dumps(each) + "\n" for each in ids))
    (folder / "few.jsonl").write_text("[3, 4]\n[4, 5]\n")
    (folder / "one.txt").write_text("a b c\n")
    (folder / "empty").mkdir()
    odd_folders(folder)


def set_in(path, **values):
    """Change values of the object in a JSON file, which is made if it is not there."""
    held = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(held | values))


def odd_folders(folder):
    """A BERT without its head, and a model that needs code of its own."""
    model, _ = load_any_language_model(str(folder / "bert"))
    model.bert.save_pretrained(folder / "mute")
    set_in(folder / "mute" / "config.json", architectures=["BertForMaskedLM"])
    (folder / "odd").mkdir()
    config = {"model_type": "odd", "architectures": ["OddForMaskedLM"], "auto_map": {"AutoConfig": "c.C"}}
    set_in(folder / "odd" / "config.json", **config)


def records(written):
    """What `--json` has written, by quantity, model and part of the model."""
    return {
        (r["quantity"], r["checkpoint"], r["settings"].get("group")): r
        for r in json.loads(written)["records"]
    }
