"""Folders as published: without a type, with other weights, with damaged files."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
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

from isoloss.errors import BadInput
from isoloss.models.loading import load_any_language_model, longest_sentence, what_is_predicted
from isoloss.models.tokenizer import load_tokenizer, lost_capitals

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


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    for name, build in MODELS.items():
        build().save_pretrained(folder / name)
    return folder


@pytest.fixture
def folder(published, tmp_path, request):
    return Path(shutil.copytree(published / request.param, tmp_path / "model"))


def configure(folder, **changes):
    path = folder / "config.json"
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))


def rename(folder, **changes):
    path = folder / "model.safetensors"
    weights = {changes.get(name.replace(".", "_"), name): each for name, each in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("bert", "masked"), ("pretrained", "masked"), ("distilbert", "masked"), ("gpt2", "causal")],
    indirect=["folder"],
)
@pytest.mark.parametrize("left_out", ["architectures", "model_type", "both"])
def test_what_a_configuration_leaves_out_is_found_elsewhere(folder, kind, left_out):
    names = ("architectures", "model_type") if left_out == "both" else (left_out,)
    configure(folder, **dict.fromkeys(names))
    model, predicted = load_any_language_model(str(folder))
    assert predicted == kind
    assert longest_sentence(model) in (512, 1024)


@pytest.mark.parametrize("folder", ["bert"], indirect=True)
def test_weights_as_torch_saves_them_are_read(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert what_is_predicted(str(folder)) == "masked"
    assert load_any_language_model(str(folder))[0].num_parameters() > 0


@pytest.mark.parametrize("folder", ["bert"], indirect=True)
def test_scores_have_their_name_though_a_configuration_asks_for_tuples(folder):
    configure(folder, return_dict=False)
    model, _ = load_any_language_model(str(folder))
    assert model(input_ids=torch.tensor([[5, 6]])).logits.shape[:2] == (1, 2)


def lowest_first(name):
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


def of_megatron(name):
    name = name.replace("cls.predictions.transform.LayerNorm", "lm_head.layernorm")
    return name.replace("cls.predictions.transform", "lm_head").replace("cls.predictions", "lm_head")


def of_fairseq(name):
    return f"encoder.{name}" if name.startswith("lm_head.") else name


NAMED = {
    "old TensorFlow": ("pretrained", lowest_first),
    "Google": ("bert", lambda name: name.replace("predictions.bias", "predictions.output_bias")),
    "Megatron": ("pretrained", of_megatron),
    "fairseq": ("roberta", of_fairseq),
    "DataParallel": ("bert", "module.{}".format),
    "compile and DataParallel": ("gpt2", "_orig_mod.module.{}".format),
    "Lightning": ("distilbert", "model.{}".format),
}


@pytest.mark.parametrize("weights", ["safetensors", "bin"])
@pytest.mark.parametrize("library", NAMED)
def test_weights_named_as_others_name_them_are_those_of_the_model(published, tmp_path, library, weights):
    name, renamed = NAMED[library]
    folder = Path(shutil.copytree(published / name, tmp_path / "model"))
    held = {renamed(each): value for each, value in load_file(folder / "model.safetensors").items()}
    if weights == "safetensors":
        save_file(held, folder / "model.safetensors", metadata={"format": "pt"})
    else:
        (folder / "model.safetensors").unlink()
        torch.save(held, folder / "pytorch_model.bin")
        configure(folder, model_type=None, architectures=None)
    found = load_any_language_model(str(folder))[0].state_dict()
    expected = load_any_language_model(str(published / name))[0].state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[each], expected[each]) for each in expected)


QUERY = "bert.encoder.layer.0.attention.self.query.weight"
SPECIAL = ["[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.mark.parametrize(
    ("words", "said", "text", "tokens"),
    [
        (["a", "##b", ","], None, "AB, a", ["[CLS]", "a", "##b", ",", "a", "[SEP]"]),
        (["A", "a", "##B"], None, "AB a", ["[CLS]", "A", "##B", "a", "[SEP]"]),
        (["A", "a", "##B"], True, "AB a", ["[CLS]", "[UNK]", "a", "[SEP]"]),
        (["C", "[C@H]", ">>", "c1"], None, "C [C@H] >> c1", ["[CLS]", "C", "[C@H]", ">>", "c1", "[SEP]"]),
    ],
)
@pytest.mark.parametrize("kind", ["bert", "gpt2", "albert"])
def test_a_lone_vocabulary_is_read_as_its_words_are_written(tmp_path, kind, words, said, text, tokens):
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL, *words, ""]))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    if said is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": said}))
    tokenizer = load_tokenizer(str(tmp_path))
    assert tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) == tokens
    assert len(tokenizer) == len(SPECIAL) + len(words)
    lost = lost_capitals(tokenizer)
    assert (lost is not None) == bool(said)
    assert lost is None or 'its 9 words have capitals, such as ##B; set "do_lower_case": false' in lost


@pytest.mark.parametrize("folder", ["gpt2"], indirect=True)
def test_a_tokenizer_is_found_beside_a_configuration_without_a_type(folder):
    configure(folder, model_type=None, architectures=None)
    (folder / "vocab.json").write_text(json.dumps({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}))
    (folder / "merges.txt").write_text("#version: 0.2\na b\n")
    assert load_tokenizer(str(folder))("ab")["input_ids"] == [2]


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


@pytest.mark.parametrize("folder", ["bert"], indirect=True)
def test_a_configuration_that_names_kernels_of_cards_is_read_without_them(folder):
    expected, _ = load_any_language_model(str(folder))
    configure(folder, attn_implementation="flash_attention_2")
    model, _ = load_any_language_model(str(folder))
    assert model.config._attn_implementation == expected.config._attn_implementation
