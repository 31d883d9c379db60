"""`isoloss inspect`: the contents of a folder in a few lines, and how it would be measured."""

import json

import pytest
import torch
from called import run
from transformers import FNetConfig, FNetForMaskedLM

from isoloss.models.tokenizer import word_tokenizer
from isoloss.models.transformers import GPT2Transformer, PostLayerNormTransformer, Shape

WORDS = list("abcdefgh")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspected")
    PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(len(WORDS), 8, 0).save_pretrained(folder / "bert")
    word_tokenizer(WORDS, 8).save_pretrained(folder / "bert")
    GPT2Transformer(Shape(8, 2, 1, 8)).build(len(WORDS), 8, 0).save_pretrained(folder / "gpt2")
    with torch.random.fork_rng():
        model = FNetForMaskedLM(FNetConfig(vocab_size=11, hidden_size=8, num_hidden_layers=1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 10
    model.save_pretrained(folder / "fnet")
    return folder


def inspected(folder, capsys):
    assert run(["inspect", str(folder)]) == 0
    return capsys.readouterr().out


def test_it_tells_what_it_found(folders, capsys):
    written = inspected(folders / "bert", capsys)
    assert "BertForMaskedLM, type bert, masked" in written
    assert "tied: bert.embeddings.word_embeddings.weight is cls.predictions.decoder.weight" in written
    assert "11 of 11 tokens, mask token [MASK]" in written
    assert "longest input: 9 tokens" in written
    assert "per-sentence gradients" not in written
    assert "s per sentence of 9 tokens" in written


def test_a_folder_without_a_tokenizer_names_the_option(folders, capsys):
    written = inspected(folders / "gpt2", capsys)
    assert "GPT2LMHeadModel, type gpt2, causal" in written
    assert "none for its 11 tokens; give token numbers with --token-ids\n" in written


def test_a_model_that_padding_reaches_is_told(folders, capsys):
    assert "equally long sentences at a time" in inspected(folders / "fnet", capsys)


def test_json_has_what_the_lines_tell(folders, capsys):
    assert run(["inspect", str(folders / "bert"), str(folders / "gpt2"), "--json"]) == 0
    bert, gpt2 = json.loads(capsys.readouterr().out)["models"]
    assert (bert["class"], bert["predicts"], gpt2["predicts"]) == ("BertForMaskedLM", "masked", "causal")
    assert bert["tied"][0] == ["bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"]
    assert (bert["tokens"], bert["longest_input"], bert["trial"]["length"]) == (11, 9, 9)
    assert bert["bytes_of_weights"] == 4 * bert["parameters"]
    assert sum(bert["trial"]["ways"].values()) == bert["tensors"]
