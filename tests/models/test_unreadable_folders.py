"""Folders as published that cannot be read: each is named with what is wrong, in a sentence."""

import json
from pathlib import Path

import pytest
import torch
from published_folders import configure, rename
from safetensors.torch import load_file, save_file

from isoloss.errors import BadInput
from isoloss.models.loading import load_any_language_model

QUERY = "bert.encoder.layer.0.attention.self.query.weight"


def other_size(folder):
    configure(folder, hidden_size=12)


def more_layers(folder):
    configure(folder, num_hidden_layers=12)


def fewer_layers(folder):
    weights = load_file(folder / "model.safetensors")
    above = {name.replace("layer.0.", "layer.1."): each.clone() for name, each in weights.items()}
    save_file(above | weights, folder / "model.safetensors")


def half(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:2000])


def other_names(folder):
    rename(folder, cls_predictions_bias="head.bias")


def no_torch_file(folder):
    (folder / "model.safetensors").unlink()
    torch.save({"what": Path("else")}, folder / "pytorch_model.bin")


def no_pickle(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_text("hello")


def no_index(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text('{"metadata": {}}')


def of_kind(kind):
    def damage(folder):
        weights = load_file(folder / "model.safetensors")
        weights[QUERY] = weights[QUERY].to(kind)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    return damage


def of_kind_in_torch_file(kind):
    def damage(folder):
        weights = load_file(folder / "model.safetensors")
        (folder / "model.safetensors").unlink()
        torch.save(weights | {QUERY: weights[QUERY].to(kind)}, folder / "pytorch_model.bin")

    return damage


def missing_shard(folder):
    (folder / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": {"bert.embeddings.word_embeddings.weight": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def no_configuration(folder):
    (folder / "config.json").write_text("[" * 100_000)


def no_type(folder):
    configure(folder, model_type=None, architectures=None)
    weights = load_file(folder / "model.safetensors")
    renamed = {name.replace("bert.", "body."): each for name, each in weights.items()}
    save_file(renamed, folder / "model.safetensors")


def a_classifier(folder):
    weights = load_file(folder / "model.safetensors")
    save_file(weights | {"classifier.weight": torch.zeros(2, 8)}, folder / "model.safetensors")


def of_another_library(folder):
    weights = load_file(folder / "model.safetensors")
    renamed = {name.replace("bert.encoder", "sentence_encoder"): each for name, each in weights.items()}
    save_file(renamed, folder / "model.safetensors")


def state_of_training(folder):
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save({"epoch": 1, "state_dict": weights}, folder / "pytorch_model.bin")


def no_layers(folder):
    configure(folder, num_hidden_layers=0)


def nothing(folder):
    pass


@pytest.mark.parametrize(
    ("folder", "damage", "sentence"),
    [
        ("bert", other_size, r"do not fit: .* is .*8.*, where the configuration has .*12"),
        (
            "bert",
            more_layers,
            r"do not fit: the weights lack bert.encoder.layer.1.\S+, which config.json asks for; mend",
        ),
        (
            "bert",
            fewer_layers,
            r"do not fit: bert.encoder.layer.1.\S+ is of a layer that config.json does not ask for; mend",
        ),
        ("bert", no_layers, "is a model without layers, by its num_hidden_layers; mend config.json"),
        ("bert", half, "a file of weights is damaged .*; fetch or copy the folder again"),
        (
            "bert",
            other_names,
            "lacks cls.predictions.bias; if it only has .* rename head.bias to cls.predictions.bias in",
        ),
        ("bert", no_torch_file, "its .bin file is damaged, or holds more than weights.*; save it again"),
        ("bert", no_pickle, "its .bin file is damaged, or holds more than weights.*; save it again"),
        (
            "bert",
            no_index,
            "no index of weights can be read from .*index.json: there is no 'weight_map'; mend",
        ),
        (
            "bert",
            of_kind(torch.int8),
            f"{QUERY} is stored as I8 in .*measure the model that it was made from",
        ),
        ("bert", of_kind(torch.bool), f"{QUERY} is stored as BOOL"),
        ("bert", of_kind(torch.complex64), f"{QUERY} is stored as C64"),
        ("bert", of_kind_in_torch_file(torch.int8), f"{QUERY} is stored as int8 in"),
        ("bert", of_kind_in_torch_file(torch.complex64), f"{QUERY} is stored as complex64"),
        ("bert", missing_shard, "model-2.safetensors; fetch or copy that file too"),
        ("bert", no_configuration, "config.json is not a JSON object"),
        ("bert", no_type, 'does not say of what type the model is; add it, for example "model_type": "bert"'),
        ("encoder", nothing, "has no trained language head: it lacks cls."),
        ("encoder", a_classifier, r"lacks cls.*give a model with one \(its classifier.weight is of another"),
        ("bert", of_another_library, "its weights are named as fairseq names them; convert it"),
        (
            "bert",
            state_of_training,
            "holds a state of training, not weights alone; save what it has under 'st",
        ),
        ("t5", nothing, "is an encoder and a decoder"),
    ],
    indirect=["folder"],
)
def test_what_cannot_be_read_is_said_in_a_sentence(folder, damage, sentence):
    damage(folder)
    with pytest.raises(BadInput, match=sentence) as refused:
        load_any_language_model(str(folder))
    assert "\n" not in str(refused.value)
