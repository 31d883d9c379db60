"""Folders as published that are read all the same: without a type, with weights named otherwise."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from published_folders import configure
from safetensors.torch import load_file, save_file

from isoloss.models.loading import load_any_language_model, what_is_predicted
from isoloss.models.tokenizer import load_tokenizer, longest_sentence, lost_capitals
from thorough_cases import others_thorough


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("bert", "masked"), ("pretrained", "masked"), ("distilbert", "masked"), ("gpt2", "causal")],
    indirect=["folder"],
)
@pytest.mark.parametrize("left_out", others_thorough(["both", "architectures", "model_type"]))
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


FORMATS = ("safetensors", "bin")


@pytest.mark.parametrize(
    ("weights", "library"),
    [
        pytest.param(weights, library, marks=[pytest.mark.thorough] * (FORMATS[place % 2] != weights))
        for place, library in enumerate(NAMED)
        for weights in FORMATS
    ],
)
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


@pytest.mark.parametrize("folder", ["bert"], indirect=True)
def test_a_configuration_that_names_kernels_of_cards_is_read_without_them(folder):
    expected, _ = load_any_language_model(str(folder))
    configure(folder, attn_implementation="flash_attention_2")
    model, _ = load_any_language_model(str(folder))
    assert model.config._attn_implementation == expected.config._attn_implementation
