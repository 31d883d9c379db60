"""Folders as published that cannot be read: each is named with what is wrong, in a sentence."""

import json
from pathlib import Path

import pytest
import torch
from published_folders import configure
from safetensors.torch import load_file, save_file

from isoloss.errors import BadInput
from isoloss.models.loading import load_any_language_model

QUERY = "bert.encoder.layer.0.attention.self.query.weight"


def configured(**changes):
    return lambda folder: configure(folder, **changes)


def with_weights(changed):
    """The folder's weights as `changed` returns them."""

    def damage(folder):
        path = folder / "model.safetensors"
        save_file(changed(load_file(path)), path, metadata={"format": "pt"})

    return damage


def in_torch_file(changed):
    """What `changed` returns of the weights, in torch's own file in place of the other."""

    def damage(folder):
        content = changed(load_file(folder / "model.safetensors"))
        (folder / "model.safetensors").unlink()
        torch.save(content, folder / "pytorch_model.bin")

    return damage


def of_kind(kind):
    return lambda weights: weights | {QUERY: weights[QUERY].to(kind)}


def renamed(before, after):
    return lambda weights: {name.replace(before, after): each for name, each in weights.items()}


def with_further_layer(weights):
    return weights | {name.replace("layer.0.", "layer.1."): each.clone() for name, each in weights.items()}


def half(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:2000])


def no_pickle(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_text("hello")


def with_index(**content):
    """Only an index of weights, of this content."""

    def damage(folder):
        (folder / "model.safetensors").unlink()
        index = json.dumps({"metadata": {}} | content)
        (folder / "model.safetensors.index.json").write_text(index)

    return damage


def no_configuration(folder):
    (folder / "config.json").write_text("[" * 100_000)


def no_type(folder):
    configure(folder, model_type=None, architectures=None)
    with_weights(renamed("bert.", "body."))(folder)


def nothing(folder):
    pass


DO_NOT_FIT, OF_LAYER = "do not fit: ", r"bert.encoder.layer.1.\S+"
BIN_DAMAGED = "its .bin file is damaged, or holds more than weights.*; save it again"
LACKS_SHARD = {"bert.embeddings.word_embeddings.weight": "model-2.safetensors"}
WITH_CLASSIFIER = with_weights(lambda weights: weights | {"classifier.weight": torch.zeros(2, 8)})
OF_BERT = [
    (configured(hidden_size=12), f"{DO_NOT_FIT}.* is .*8.*, where the configuration has .*12"),
    (
        configured(num_hidden_layers=12),
        f"{DO_NOT_FIT}the weights lack {OF_LAYER}, which config.json asks for; mend",
    ),
    (
        with_weights(with_further_layer),
        f"{DO_NOT_FIT}{OF_LAYER} is of a layer that config.json does not ask for; mend",
    ),
    (
        configured(num_hidden_layers=0),
        "is a model without layers, by its num_hidden_layers; mend config.json",
    ),
    (half, "a file of weights is damaged .*; fetch or copy the folder again"),
    (
        with_weights(renamed("cls.predictions.bias", "head.bias")),
        "lacks cls.predictions.bias; if it only has .* rename head.bias to cls.predictions.bias in",
    ),
    (in_torch_file(lambda weights: {"what": Path("else")}), BIN_DAMAGED),
    (no_pickle, BIN_DAMAGED),
    (with_index(), "no index of weights can be read from .*index.json: there is no 'weight_map'; mend"),
    (with_index(weight_map=LACKS_SHARD), "model-2.safetensors; fetch or copy that file too"),
    (
        with_weights(of_kind(torch.int8)),
        f"{QUERY} is stored as I8 in .*measure the model that it was made from",
    ),
    (with_weights(of_kind(torch.bool)), f"{QUERY} is stored as BOOL"),
    (with_weights(of_kind(torch.complex64)), f"{QUERY} is stored as C64"),
    (in_torch_file(of_kind(torch.int8)), f"{QUERY} is stored as int8 in"),
    (in_torch_file(of_kind(torch.complex64)), f"{QUERY} is stored as complex64"),
    (no_configuration, "config.json is not a JSON object"),
    (no_type, 'does not say of what type the model is; add it, for example "model_type": "bert"'),
    (
        with_weights(renamed("bert.encoder", "sentence_encoder")),
        "its weights are named as fairseq names them; convert it",
    ),
    (
        in_torch_file(lambda weights: {"epoch": 1, "state_dict": weights}),
        "holds a state of training, not weights alone; save what it has under 'st",
    ),
]


@pytest.mark.parametrize(
    ("folder", "damage", "sentence"),
    [
        *(("bert", *each) for each in OF_BERT),
        ("encoder", nothing, "has no trained language head: it lacks cls."),
        (
            "encoder",
            WITH_CLASSIFIER,
            r"lacks cls.*give a model with one \(its classifier.weight is of another",
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
