"""`isoloss inspect`: the contents of a folder in a few lines, and how it would be measured."""

import json
import shutil

import pytest
import torch
from called import answer, json_of, output_of, refused, run
from models_with_heads import BART, T5, model_with_head
from transformers import (
    BartConfig,
    BartForSequenceClassification,
    FNetConfig,
    FNetForMaskedLM,
    GPT2Config,
    GPT2ForSequenceClassification,
    T5Config,
    T5ForSequenceClassification,
)

from isoloss.command_line.options import precision_that_fits
from isoloss.measurements import foreseen_cost
from isoloss.models.loading import load_any_language_model
from isoloss.models.tokenizer import word_tokenizer
from isoloss.models.transformers import GPT2Transformer, PostLayerNormTransformer, Shape

WORDS = list("abcdefgh")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspected")
    PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(len(WORDS), 8, 0).save_pretrained(folder / "bert")
    word_tokenizer(WORDS, 8).save_pretrained(folder / "bert")
    GPT2Transformer(Shape(8, 2, 1, 8)).build(len(WORDS), 8, 0).save_pretrained(folder / "gpt2")
    return folder


def inspected(folder, capsys):
    return output_of(answer(capsys, "inspect", folder))


def test_it_tells_what_it_found(folders, capsys):
    written = inspected(folders / "bert", capsys)
    assert "BertForMaskedLM, type bert, masked" in written
    assert "tied: bert.embeddings.word_embeddings.weight and cls.predictions.decoder.weight" in written
    assert "11 of 11 tokens, mask token [MASK]" in written
    assert "longest input: 9 tokens" in written
    assert "per-sentence gradients" not in written
    assert "s per sentence of 9 tokens" in written


def test_a_folder_without_a_tokenizer_names_the_option(folders, capsys):
    written = inspected(folders / "gpt2", capsys)
    assert "GPT2LMHeadModel, type gpt2, causal" in written
    assert "none for its 11 tokens; give token numbers with --token-ids\n" in written


@pytest.mark.thorough
def test_a_model_that_padding_reaches_is_told(tmp_path, capsys):
    with torch.random.fork_rng():
        model = FNetForMaskedLM(FNetConfig(vocab_size=11, hidden_size=8, num_hidden_layers=1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 10
    model.save_pretrained(tmp_path)
    assert "equally long sentences at a time" in inspected(tmp_path, capsys)


@pytest.mark.thorough
def test_json_has_what_the_lines_tell(folders, capsys):
    bert, gpt2 = json_of(answer(capsys, "inspect", folders / "bert", folders / "gpt2", "--json"))["models"]
    assert (bert["class"], bert["predicts"], gpt2["predicts"]) == ("BertForMaskedLM", "masked", "causal")
    assert bert["tied"][0] == ["bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"]
    assert (bert["tokens"], bert["longest_input"], bert["trial"]["length"]) == (11, 9, 9)
    assert bert["bytes_of_weights"] == 4 * bert["parameters"]
    assert sum(bert["trial"]["ways"].values()) == bert["tensors"]


@pytest.mark.parametrize("name", [pytest.param("bert", marks=pytest.mark.thorough), "gpt2"])
def test_the_configuration_alone_counts_what_the_loaded_model_takes(
    name, folders, tmp_path, capsys, monkeypatch
):
    if name == "gpt2":  # one is timed
        monkeypatch.setattr(foreseen_cost, "timed_layers", lambda *_: (1.0, ""))
    shutil.copy(folders / name / "config.json", tmp_path)
    (alone,) = json_of(answer(capsys, "inspect", tmp_path, "--json"))["models"]
    model, prediction = load_any_language_model(str(folders / name))
    assert prediction == alone["predicts"]
    counted = alone["counted"]
    assert counted["parameters"] == sum(each.numel() for each in model.parameters())
    assert (alone["length"], alone["precision"], counted["at_once"]) == (9, "float32", 64)
    assert alone["seconds_a_sentence"] > 0
    assert alone["sentences_for_one_percent"] == [5_000, 120_000]
    peak = max(counted["bytes_of_pass"], counted["bytes_of_gradients"])
    assert alone["peak_bytes"] == alone["process_bytes"] + peak
    assert peak > counted["bytes_of_weights"]


@pytest.fixture
def _untimed(monkeypatch):
    """Where the time is not looked at, no layers are run for it."""
    monkeypatch.setattr(foreseen_cost, "timed_layers", lambda *_: (None, "not tried"))


@pytest.fixture(scope="module")
def counted():
    return {}


@pytest.fixture
def _counted_once(counted, monkeypatch):
    """Passes of one model in one precision are counted for the first command that asks for them."""
    count = foreseen_cost.counted_passes

    def once(name, model, *settings):
        key = type(model), model.dtype
        if key not in counted:
            counted[key] = count(name, model, *settings)
        return counted[key]

    monkeypatch.setattr(foreseen_cost, "counted_passes", once)


@pytest.mark.usefixtures("_untimed", "_counted_once")
def test_what_is_counted_of_adapters_and_of_quantised_models_is_said(folders, tmp_path, capsys):
    adapter = {"base_model_name_or_path": str(folders / "gpt2"), "peft_type": "LORA"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(adapter))
    asked = ("inspect", tmp_path, "--for", "80GB")
    told = " ".join(output_of(answer(capsys, *asked)).split())
    assert "those of the base model, as if all were measured" in told
    (tmp_path / "adapter_config.json").unlink()
    config = json.loads((folders / "gpt2" / "config.json").read_text())
    quantised = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": quantised}))
    told = " ".join(output_of(answer(capsys, *asked)).split())
    assert "as if they were not quantised: they take less" in told


@pytest.mark.usefixtures("_untimed", "_counted_once")
def test_it_tells_whether_a_configuration_fits(folders, tmp_path, capsys):
    config = json.loads((folders / "gpt2" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    told = output_of(answer(capsys, "inspect", tmp_path, "--for", "80GB"))
    assert "in float32" in told
    assert "fits into 80 GB" in told
    assert "fits into 1,600 GB" in output_of(answer(capsys, "inspect", tmp_path, "--for", "1.6TB"))
    assert "5,000 to 120,000 as of five published models; for this one, give --text" in told
    told = output_of(answer(capsys, "inspect", tmp_path, "--for", "1MB"))
    assert "in bfloat16" in told
    assert "does not fit into 1 MB" in told
    (told,) = json_of(answer(capsys, "inspect", tmp_path, "--for", "1MB", "--json"))["models"]
    assert (told["limit_bytes"], told["fits"]) == (1_000_000, False)
    tight = f"{1.1 * told['peak_bytes'] / 1e6:.0f}MB"
    assert "may not fit into" in output_of(answer(capsys, "inspect", tmp_path, "--for", tight))
    assert (told["predicts"], told["class"], told["type"]) == ("causal", "GPT2LMHeadModel", "gpt2")
    for amount in ("much", "80"):
        told = refused(capsys, "inspect", tmp_path, "--for", amount)
        assert f"--for takes an amount of memory, such as 80GB or 24GiB, not {amount}" in told
    told = refused(capsys, "inspect", tmp_path, "--memory", "nan")
    assert "--memory must be above 0 and at most 1,000,000 gibibytes, not nan" in told


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"vocab_size": 10**13}, "more than any published model has"),
        ({"num_hidden_layers": 10**7}, "more than any published model has"),
        ({"num_hidden_layers": 0}, "is a model without layers, by its num_hidden_layers"),
    ],
)
def test_a_configuration_that_is_no_models_is_refused(folders, tmp_path, capsys, changed, says):
    config = json.loads((folders / "bert" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **changed}))
    assert says in refused(capsys, "inspect", tmp_path, "--for", "80GB")


@pytest.mark.parametrize(
    ("value", "says"), [(float("nan"), "initializer_range in"), (-1.0, "normal expects std >= 0.0")]
)
def test_torch_says_nothing_of_its_own_of_a_wrong_value(folders, tmp_path, capfd, value, says):
    config = json.loads((folders / "bert" / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "initializer_range": value}))
    assert run(["inspect", str(tmp_path), "--for", "80GB"]) == 2
    told = [line for line in capfd.readouterr().err.splitlines() if not line.endswith(": starting")]
    assert len(told) == 1
    assert says in told[0]


def test_what_is_asked_of_the_configuration_and_of_the_weights_is_not_mixed(folders, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("a b c\nb c\n")
    said = refused(capsys, "inspect", folders / "bert", "--for", "8GB", "--text", tmp_path / "text.txt")
    assert "leave out one of the two" in said
    code, _, said = answer(capsys, "inspect", folders / "bert", "--length", "5")
    assert (code, "ask with --for MEMORY" in said) == (2, True)


@pytest.mark.thorough
def test_a_pilot_on_a_text_tells_how_many_sentences_one_percent_takes(folders, tmp_path, capsys):
    texts = [" ".join(WORDS[i % 8] for i in range(number, number + 3 + number % 4)) for number in range(80)]
    (tmp_path / "text.txt").write_text("\n".join(texts) + "\n")
    asked = ["--text", str(tmp_path / "text.txt"), "--json"]
    pilot = json_of(answer(capsys, "inspect", folders / "bert", *asked))["models"][0]["pilot"]
    trace = json_of(answer(capsys, "flatness", folders / "bert", *asked, "--sentences", "64"))["records"][0]
    assert pilot["sentences"] == trace["n"] == 64
    assert pilot["relative_error"] == pytest.approx(trace["standard_error"] / trace["value"])


def test_weights_are_measured_as_stored_where_single_precision_does_not_fit(folders, tmp_path):
    model, _ = load_any_language_model(str(folders / "bert"))
    model.bfloat16().save_pretrained(tmp_path)
    size = sum(each.numel() for each in model.parameters())
    for free, expected in ((3 * size, torch.bfloat16), (4 * size + 100_000, torch.float32)):
        assert precision_that_fits([str(tmp_path)], free, 10) == expected
        assert precision_that_fits([str(folders / "bert")], free, 10) == torch.float32


@pytest.mark.thorough
@pytest.mark.usefixtures("_untimed")
def test_the_configuration_alone_tells_of_the_head_of_a_task(tmp_path, capsys):
    model_with_head("text", tmp_path / "whole")
    (tmp_path / "alone").mkdir()
    shutil.copy(tmp_path / "whole" / "config.json", tmp_path / "alone")
    told = output_of(answer(capsys, "inspect", tmp_path / "alone", "--for", "80GB"))
    assert "BertForSequenceClassification, type bert, text classes; from its configuration alone" in told
    assert "fits into 80 GB" in told


@pytest.fixture(scope="module", params=[pytest.param("bart", marks=pytest.mark.thorough), "t5"])
def reads_ends(request, tmp_path_factory):
    """A model that classifies a text by its end-of-sentence token."""
    config = BartConfig if request.param == "bart" else T5Config
    kind = BartForSequenceClassification if request.param == "bart" else T5ForSequenceClassification
    size = BART if request.param == "bart" else T5
    with torch.random.fork_rng():
        model = kind(config(vocab_size=11, pad_token_id=0, eos_token_id=2, num_labels=3, **size))
    return model_with_head("text", tmp_path_factory.mktemp(request.param), model)


@pytest.mark.thorough
def test_a_classifier_that_reads_the_end_of_a_sentence_is_tried_on_sentences_that_have_one(
    reads_ends, capsys
):
    (told,) = json_of(answer(capsys, "inspect", reads_ends, "--json"))["models"]
    assert told["predicts"] == "text classes"
    assert told["trial"]["padded"]


def test_a_classifier_may_name_an_end_of_sentence_beyond_its_tokens(tmp_path, capsys):
    config = GPT2Config(vocab_size=11, n_embd=8, n_layer=1, n_head=2, pad_token_id=0, num_labels=3)
    assert config.eos_token_id > config.vocab_size
    folder = model_with_head("text", tmp_path / "model", GPT2ForSequenceClassification(config))
    (told,) = json_of(answer(capsys, "inspect", folder, "--json"))["models"]
    assert told["predicts"] == "text classes"


@pytest.mark.usefixtures("_untimed")
def test_a_configuration_is_not_asked_what_depends_on_a_texts_tokens(reads_ends, capsys):
    told = refused(capsys, "inspect", reads_ends, "--for", "8GB")
    assert "depends on the values of its weights, or of the tokens that it reads" in told
