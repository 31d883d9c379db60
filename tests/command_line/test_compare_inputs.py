"""`isoloss compare`: models, texts and settings that it refuses, in a sentence each."""

import re

import pytest
import torch
from called import refusal_in
from compared_folders import TASK, TEXT, save
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForMaskedLM

import isoloss.measurements.compared_checkpoints as compared_module
from isoloss.models.lstm import LSTM
from isoloss.models.tokenizer import word_tokenizer
from isoloss.models.transformers import GPT2Transformer, Shape


@pytest.mark.parametrize("wrong", ["none/of/these", "mute", "maskless"])
def test_a_mistake_in_the_last_name_is_told_before_the_first_weights_are_read(wrong, compare, monkeypatch):
    def read(*_):
        raise AssertionError("weights were read")

    monkeypatch.setattr(compared_module.Models, "load", read)
    assert wrong in refusal_in(compare("a", "b", wrong, *TASK))


@pytest.mark.usefixtures("_nothing_painted")
def test_a_checkpoint_that_diverged_is_named_and_the_others_are_kept(compare, compared, tmp_path):
    model = AutoModelForMaskedLM.from_pretrained(compared / "b")
    with torch.no_grad():
        model.cls.predictions.bias[:] = float("nan")
    save(model, tmp_path / "diverged")
    told = refusal_in(compare("a", tmp_path / "diverged", *TEXT))
    assert re.search(r"scores for \S*diverged, the sentence of line \d+, are not finite", told)
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["a", *TASK], "name two checkpoints or more"),
        (["a", "./a", *TASK], "a and ./a are one checkpoint"),
        (["a", "copy-of-a", *TASK], "a and copy-of-a hold the same weights"),
        (["a", "mute", *TASK], "mute has no trained language head"),
        (["a", "text.txt", *TASK], "text.txt is a file"),
        (["a", "maskless", *TASK], "the tokenizer of maskless has no mask token"),
        (["a", "b", "--text", "blank.txt"], "blank.txt is empty"),
        (["a", "b", "--text", "one.txt"], "has a single sentence"),
        (["a", "b", "--text", "text.txt", "--dataset", "x"], "--text or --dataset"),
        (["a", "b", "--task", "unlabelled.jsonl"], "has no column 'label'"),
        (["a", "b", "--task", "single.jsonl"], "every example of single.jsonl has the label 'early'"),
        (["a", "b", "--text", "text.txt", "--fine-tune"], "there is no task"),
        (["a", "b", "--text", "text.txt", "--task-examples", "8"], "there is no task"),
        (["a", "b", "--text", "text.txt", "--task-length", "64"], "there is no task"),
        (["a", "b", *TASK, "--task-length", "7"], "--task-length must leave at least 8 tokens"),
        (["a", "b", *TASK, "--sentences", "9"], "there is no text to measure on: give --text FILE"),
        (["a", "b", *TASK, "--quantity", "unit_trace"], "there is no text to measure on"),
        (["a", "b", *TASK, "--seed", "-1"], "--seed must be"),
        (["a", "b", *TEXT, "--mask-rate", "0"], "mask rate must be above 0"),
        (["a", "b", *TEXT, "--same-loss", "2"], "share of the loss"),
        (["a", "b", *TEXT, "--seconds", "0"], "the seconds to measure for must be above 0"),
        (["a", "b", *TEXT, "--sentences", "1"], "a standard error takes at least 2 sentences, not 1"),
        (["a", "b", *TEXT, "--device", "cud"], "the device 'cud' cannot be used"),
    ],
)
def test_mistakes_are_one_sentence_each_before_any_work(arguments, sentence, compare, tmp_path):
    assert sentence in refusal_in(compare(*arguments))
    assert list(tmp_path.iterdir()) == []


def test_the_report_is_html_that_can_be_written(compare, tmp_path):
    assert "names an HTML file" in compare("a", "b", *TASK, output=tmp_path / "report")[2]
    (tmp_path / "file").write_text("")
    assert (
        "is a file, where a folder is needed"
        in compare("a", "b", *TASK, output=tmp_path / "file" / "report.html")[2]
    )


def test_a_text_of_the_name_of_the_records_is_not_replaced(compare, tmp_path):
    text = tmp_path / "report.jsonl"
    text.write_text('{"text": "a b"}\n{"text": "c d"}\n')
    told = refusal_in(compare("a", "b", "--text", text))
    assert "report.jsonl would be replaced by the page's records, and is no whole file of records" in told
    assert text.read_text() == '{"text": "a b"}\n{"text": "c d"}\n'


def test_what_causal_models_of_a_language_cannot_read_or_mask_is_refused(compare, tmp_path):
    """Words that a tokenizer does not know: that of a language replaces none."""
    folders = [tmp_path / name for name in ("one", "other")]
    for seed, folder in enumerate(folders):
        GPT2Transformer(Shape(8, 2, 1, 8)).build(4, 8, seed).save_pretrained(folder)
        word_tokenizer(list("wxyz"), 8).save_pretrained(folder)
    assert "cannot encode" in refusal_in(compare(*folders, *TASK))
    (tmp_path / "letters.txt").write_text("w x y z\n" * 9)
    told = refusal_in(compare(*folders, "--text", tmp_path / "letters.txt", "--mask-rate", "0.5"))
    assert "causal models predict every next token; leave the options of masks out" in told


def test_a_model_without_a_classifier_is_not_fine_tuned_and_nothing_is_measured(compare, tmp_path):
    save(LSTM(8, 1).build(11, 7, 0), tmp_path / "lstm")
    told = refusal_in(compare("a", tmp_path / "lstm", *TEXT, *TASK, "--fine-tune"))
    assert "lstm is of a kind that has no classifier in transformers, so it cannot be fine-tuned" in told


def test_an_adapter_is_not_fine_tuned_and_nothing_is_measured_before_that_is_said(compare, tmp_path):
    adapter = tmp_path / "adapter"
    get_peft_model(
        AutoModelForMaskedLM.from_pretrained("a"),
        LoraConfig(r=1, target_modules=["query"], init_lora_weights=False),
    ).save_pretrained(adapter)
    told = refusal_in(compare("a", adapter, *TEXT, *TASK, "--fine-tune"))
    assert f"{adapter} is an adapter, and fine-tuning trains a whole model: merge it into its base" in told
    assert not list(tmp_path.glob("report*"))
