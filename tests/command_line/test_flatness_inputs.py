"""`isoloss flatness` on invalid texts and folders."""

import json
import shutil

import pytest
import torch
from called import answer, json_of, output_of, refused
from flatness_folders import WORDS, records, save, set_in
from safetensors.torch import load_file, save_file

from isoloss.command_line.options import GIBIBYTE, memory_bytes
from isoloss.errors import IsolossError
from isoloss.models.transformers import PostLayerNormTransformer, Shape


@pytest.fixture(scope="module")
def models(models):
    (models / "folder.html").mkdir()
    (models / "one.jsonl").write_text("[3, 4]\n")
    (models / "table.jsonl").write_text('{"first": "a b", "second": "c"}\n' * 9)
    return models


@pytest.mark.parametrize(
    ("option", "value"), [("--mask-rate", "0.6"), pytest.param("--seed", "7", marks=pytest.mark.thorough)]
)
def test_another_choice_of_masks_changes_the_trace(option, value, flatness):
    asked = ("bert", "--text", "text.txt", "--sentences", "4", "--json")
    usual, other = (records(output_of(flatness(*asked, *more))) for more in ((), (option, value)))
    trace = "fisher_trace", "bert", None
    assert usual[trace]["value"] != other[trace]["value"]


@pytest.mark.thorough
def test_lines_too_long_are_cut_and_said(flatness, models, capsys):
    (models / "long.txt").write_text("a b c d e f g h a b c\n" + "a b\n" * 30)
    written = output_of(flatness("bert", "--text", "long.txt"))
    assert "1 sentence was truncated to the model's maximum length" in written
    _, written, _ = flatness("bert", "--text", "long.txt", "--json")
    assert json.loads(written)["lines_cut"] == [1]
    asked = ("bert", "--text", "long.txt", "--sentences", 31, "--round", 4, "--trace-only")
    assert (
        "1 sentence was truncated to the model's maximum length" in answer(capsys, "sensitivity", *asked)[2]
    )


@pytest.mark.usefixtures("_no_charts")
def test_what_a_text_does_not_tell_is_said(flatness, models, capsys):
    """The tokenizer of the tests rejects words that it has no token for; this one replaces them."""
    shutil.copytree(models / "bert", models / "unsure")
    path = models / "unsure" / "tokenizer.json"
    content = json.loads(path.read_text())
    content["model"]["unk_token"] = "h"
    path.write_text(json.dumps(content))
    set_in(models / "unsure" / "tokenizer_config.json", unk_token="h")
    (models / "foreign.txt").write_text("a b c\n" * 9 + "a x y\n" * 9 + "z\n")
    written = output_of(flatness("unsure", "--text", "foreign.txt", "--sentences", "19"))
    assert "warning: 1 sentences have nothing to predict and were left out (5.3 %)" in written
    unknown = "19 of 55 tokens are unknown to the tokenizer"
    assert f"warning: {unknown} (35 %)" in written
    asked = ("unsure", "--text", "foreign.txt", "--sentences", 19, "--round", 4, "--trace-only")
    assert f"warning: {unknown} (35 %)" in answer(capsys, "sensitivity", *asked)[2]
    shutil.copytree(models / "unsure", models / "unsure too")
    weights = models / "unsure too" / "model.safetensors"
    halved = {name: weight / 2 for name, weight in load_file(weights).items()}
    save_file(halved, weights, {"format": "pt"})
    asked = ("unsure", "unsure too", "--text", "foreign.txt", "--output", "compared.html", "--json")
    assert any(unknown in note for note in json_of(answer(capsys, "compare", *asked))["notes"])
    (models / "foreign.txt").write_text("x y z\n" * 9)
    code, _, error = flatness("unsure", "--text", "foreign.txt")
    assert code == 2
    assert "nothing can be predicted: 27 of 27 tokens are unknown to the tokenizer" in error


def test_models_of_one_vocabulary_that_read_a_text_differently_are_refused(flatness, models):
    """The second begins its texts with no [CLS]: on the first one's tokens it would be another model."""
    shutil.copytree(models / "bert", models / "bare")
    set_in(models / "bare" / "tokenizer.json", post_processor=None)
    code, _, error = flatness("bert", "bare", "--text", "text.txt")
    assert code == 2
    assert "the tokenizers of bert and bare have one vocabulary, but read the text differently;" in error
    assert flatness("bare", "--text", "text.txt", "--sentences", "8")[0] == 0


@pytest.mark.usefixtures("flatness")
def test_token_numbers_nested_without_end_are_refused(models, capsys):
    (models / "deep.jsonl").write_text("[3, 4]\n" + "[" * 100_000 + "\n")
    told = refused(capsys, "flatness", "bert", "--token-ids", "deep.jsonl")
    assert "deep.jsonl, line 2: this is not a list of whole numbers" in told


@pytest.mark.thorough
def test_the_ends_of_lines_are_no_part_of_them(flatness, models):
    lines = ["a b c d", "b c", "a c d e f", "e f"]
    numbers = []
    for name, end in (("unix", b"\n"), ("windows", b"\r\n"), ("old", b"\r")):
        (models / f"{name}.txt").write_bytes(end.join(line.encode() for line in lines) + end)
        numbers.append(
            json.loads(flatness("gpt2", "--text", f"{name}.txt", "--json")[1])["records"][0]["value"]
        )
    assert len(set(numbers)) == 1


@pytest.mark.parametrize(
    ("file", "content", "text", "sentence"),
    [
        ("adapter_config.json", {}, "text.txt", "adapter_config.json names no base model"),
        (
            "config.json",
            {"architectures": ["BertForQuestionAnswering"]},
            "text.txt",
            "whose own head predicts no tokens",
        ),
        (
            "config.json",
            {"architectures": ["BertForTokenClassification"]},
            "words.jsonl",
            "has no trained head of a BertForTokenClassification: it lacks classifier.bias",
        ),
        (
            "config.json",
            {"architectures": ["BertForTokenClassification"]},
            "text.txt",
            "text.txt is no table; a model with the head of a task is measured on one with lists",
        ),
    ],
)
def test_what_is_no_whole_language_model_is_refused(flatness, models, file, content, text, sentence):
    folder = models / f"bert-with-{file}"
    shutil.copytree(models / "bert", folder, dirs_exist_ok=True)
    set_in(folder / file, **content)
    (models / "words.jsonl").write_text('{"tokens": ["a"], "labels": [0]}\n' * 2)
    code, _, error = flatness(folder.name, "--text", text)
    assert code == 2
    assert sentence in error


@pytest.mark.usefixtures("_nothing_painted")
def test_numbers_are_printed_though_the_page_cannot_be_written(flatness, models, monkeypatch):
    def full(*arguments):
        raise IsolossError("cannot write in .: No space left on device")

    monkeypatch.setattr("isoloss.report.page.write_lone_page", full)
    code, written, error = flatness("bert", "--text", "text.txt", "--sentences", "4", "--output", "a.html")
    assert code == 2
    assert "fisher_trace" in written
    assert "No space left on device" in error


def test_scores_that_are_not_finite_are_named_by_line(flatness, models):
    save(PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(len(WORDS), 8, 0), models / "diverged")
    path = models / "diverged" / "model.safetensors"
    weights = load_file(path)
    embeddings = weights["bert.embeddings.word_embeddings.weight"]
    weights["cls.predictions.decoder.weight"] = embeddings.clone()  # the scores of the bad word are whole
    weights["cls.predictions.decoder.bias"] = weights["cls.predictions.bias"].clone()
    embeddings[WORDS.index("h") + 3] = torch.nan
    save_file(weights, path, metadata={"format": "pt"})
    set_in(models / "diverged" / "config.json", tie_word_embeddings=False)
    # Equally long, since padding would let non-finite values reach the other sentences.
    (models / "named.txt").write_text("a b a\n" * 20 + "h h h\n" + "a b a\n" * 5)
    (models / "fine.txt").write_text("a b a\n" * 26)
    relative = "relative_critical_sharpness"
    for asked in (
        ("diverged",),
        ("bert", "diverged", "other"),
        ("bert", "diverged", "--quantity", "unit_trace"),
        *(("diverged", "--quantity", relative, "--seed", str(seed)) for seed in range(2)),
        ("diverged", "--quantity", f"{relative}=fine.txt"),
    ):
        code, _, error = flatness(*asked, "--text", "named.txt")
        assert code == 2
        assert "the model's scores for diverged, the sentence of line 21, are not finite" in error
    code, _, error = flatness("diverged", "--quantity", f"{relative}=named.txt", "--text", "fine.txt")
    assert code == 2
    assert "the model's scores for the sentence of line 21 of named.txt are not finite" in error


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("bert", "--text", "table.jsonl"), "table.jsonl has no column 'text' or 'sentence'"),
        (("bert", "--text", "text.txt", "--output", "folder.html"), "folder.html is a folder; name a file"),
        (
            ("bert", "--text", "text.txt", "--quantity", "gradient_norm", "--relative-error", "0.01"),
            "--relative-error and --seconds are for traces and losses",
        ),
        (["bert", "--text", "text.txt", "--token-ids", "ids.jsonl"], "by one of --text FILE"),
        (["a/b/c", "--text", "text.txt"], "there is no folder a/b/c"),
        (["text.txt", "--text", "text.txt"], "text.txt is a file"),
        (["", "--text", "text.txt"], "the name of a model is empty; name a model's folder"),
        (["bert", "--text", ""], ". is a folder; name the file that holds what to measure on"),
        (["bert", "bert", "--text", "text.txt"], "bert is named twice; name each checkpoint once"),
        (["bert", "./bert", "--text", "text.txt"], "bert and ./bert are one checkpoint; name each once"),
        (["bert", "gpt2", "--text", "text.txt"], "models that predict differently are not compared"),
        (["bert", "small", "--token-ids", "ids.jsonl"], "different numbers of tokens are not compared"),
        (["small", "--text", "text.txt"], "no tokenizer can be read from small"),
        (["small", "--token-ids", "ids.jsonl"], "line 1: there is no token"),
        (["small", "--token-ids", "few.jsonl"], "names a mask token; say its number with --mask-token-id"),
        (["small", "--text", "text.txt"], "or give token numbers with --token-ids"),
        (["bert", "--text", "text.txt", "--relative-error", "2"], "must be above 0 and below 1, not 2.0"),
        (["bert", "--text", "text.txt", "--output", "a.pdf"], "--output names an HTML file"),
        (["bert", "--text", "text.txt", "--memory", "0"], "--memory must be above 0 and at most 1,000,000"),
        (["bert", "--text", "text.txt", "--memory", "1e300"], "1,000,000 gibibytes, not 1e+300"),
        (["bert", "--text", "text.txt", "--quantity"], "there is no value after --quantity; give one"),
        (["bert", "--text", "/dev/null"], "/dev/null is a device or a pipe; name a file that holds what to"),
        (["bert", "--text", "text.txt", "--mask-rate", "0"], "mask rate must be above 0 and at most 1"),
        (["bert", "--text", "text.txt", "--mask-rate", "1.1"], "mask rate must be above 0 and at most 1"),
        (["bert", "--text", "text.txt", "--one-mask", "--mask-rate", "0.1"], "give one of the two"),
        (["bert", "--text", "text.txt", "--mask-token-id", "11"], "the mask token 11 is none"),
        (["bert", "--text", "text.txt", "--parameters", "("], "is no regular expression"),
        (["bert", "--text", "text.txt", "--parameters", "nothing"], "no parameter of bert matches"),
        (["bert", "--text", "text.txt", "--objective", "causal"], "would see the next token"),
        (
            ["gpt2", "--text", "text.txt", "--objective", "masked"],
            "transformers has no masked language model",
        ),
        (["gpt2", "--text", "text.txt", "--one-mask"], "leave the options of masks out"),
        (
            ["bert", "--text", "text.txt", "--sentences", "-3"],
            "a standard error takes at least 2 sentences, not -3",
        ),
        (["bert", "--text", "one.txt"], "one.txt has a single sentence, but an error bar takes two"),
        (["bert", "--token-ids", "one.jsonl"], "one.jsonl has a single sentence"),
        (["bert", "--text", "text.txt", "--seed", "-1"], "--seed must be from 0"),
        (
            ["bert", "--text", "text.txt", "--offload"],
            "--offload keeps the weights in the processor's memory, where --device cpu has them",
        ),
        (
            ["bert", "--text", "text.txt", "--device", "gpu"],
            "the device 'gpu' cannot be used (torch knows no device of that name); choose cpu or cuda",
        ),
        (["bert", "--text", "text.txt", "--output", "none/x.html"], "there is no folder"),
        (["mute", "--text", "text.txt"], "mute has no trained language head: it lacks cls."),
        (["odd", "--text", "text.txt"], "comes with code of its own, which isoloss does not run"),
    ],
)
@pytest.mark.usefixtures("flatness")
def test_mistakes_are_one_sentence_and_leave_nothing(models, capsys, arguments, sentence):
    before = set(models.iterdir())
    assert sentence in refused(capsys, "flatness", *arguments)
    assert set(models.iterdir()) == before


def test_passes_take_half_of_what_a_gpu_has_free(monkeypatch):
    monkeypatch.setattr("isoloss.device.usable_device", torch.device)
    monkeypatch.setattr("isoloss.device.free_memory", lambda device: 80 * GIBIBYTE)
    assert memory_bytes(None, "cuda") == 40 * GIBIBYTE
    assert memory_bytes(2.0, "cuda") == 2 * GIBIBYTE
    monkeypatch.setattr("isoloss.device.free_memory", lambda device: GIBIBYTE)
    assert memory_bytes(None, "cuda") == GIBIBYTE
