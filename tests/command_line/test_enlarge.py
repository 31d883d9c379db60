from pathlib import Path

import pytest
import torch
from called import answer, json_of, output_of, refused, run
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import AlbertConfig, AlbertForMaskedLM, AutoModelForMaskedLM, AutoTokenizer

from isoloss.models.tokenizer import word_tokenizer
from isoloss.models.transformers import (
    GPT2Transformer,
    PostLayerNormTransformer,
    PreLayerNormTransformer,
    Shape,
)
from thorough_cases import others_thorough
from tiny_models import far_from_the_start

WORDS = ["a", "b", "c"]


def write(folder: Path, architecture=PostLayerNormTransformer, dtype=torch.float32) -> Path:
    model = architecture(Shape(8, 2, 2, 12)).build(len(WORDS), 4, seed=0).to(dtype)
    model.save_pretrained(folder)
    word_tokenizer(WORDS, 4).save_pretrained(folder)
    (folder / "training_state.pt").write_bytes(b"of the small model alone")
    return folder


@pytest.mark.parametrize(
    "architecture",
    [PostLayerNormTransformer, pytest.param(PreLayerNormTransformer, marks=pytest.mark.thorough)],
)
def test_an_ordinary_checkpoint_that_computes_the_same(architecture, tmp_path, capsys):
    small, out = write(tmp_path / "small", architecture, torch.float64), tmp_path / "new" / "large"
    said = json_of(answer(capsys, "enlarge", small, "--width", "4", "--layers", "2", out, "--json"))
    assert said["large"] == {"width": 32, "heads": 8, "layers": 4, "inner_width": 48}
    assert said["small"] == {"width": 8, "heads": 2, "layers": 2, "inner_width": 12}
    assert (said["dtype"], said["out"]) == ("float64", str(out))
    assert said["difference"] < 1e-12 < said["largest_score"]
    model, large = (AutoModelForMaskedLM.from_pretrained(folder).eval() for folder in (small, out))
    assert said["large_parameters"] == large.num_parameters()
    assert said["small_parameters"] == model.num_parameters()
    text = AutoTokenizer.from_pretrained(out)(["a [MASK] c b"], return_tensors="pt")
    torch.testing.assert_close(large(**text).logits, model(**text).logits, rtol=0, atol=1e-12)
    assert not (out / "training_state.pt").exists()
    assert [path.name for path in out.parent.iterdir()] == ["large"]


@pytest.mark.parametrize("dtype", others_thorough([torch.bfloat16, torch.float16, torch.float64]))
def test_the_weights_keep_their_precision(dtype, tmp_path):
    small, out = write(tmp_path / "small", dtype=dtype), tmp_path / "large"
    assert run(["enlarge", str(small), str(out), "--width", "2"]) == 0
    assert {tensor.dtype for tensor in load_file(out / "model.safetensors").values()} == {dtype}
    assert AutoModelForMaskedLM.from_pretrained(out).dtype == dtype


@pytest.mark.thorough
def test_to_the_letter_the_difference_is_said(tmp_path, capsys):
    model = PostLayerNormTransformer(Shape(8, 2, 2, 12)).build(len(WORDS), 4, seed=0)
    far_from_the_start(model).save_pretrained(tmp_path / "small")
    differences = {}
    for form in ([], ["--paper"]):
        out = tmp_path / f"large{len(form)}"
        shown = output_of(answer(capsys, "enlarge", tmp_path / "small", out, "--layers", "1", *form))
        assert str(out) in shown.replace("\n", "")
        differences[len(form)] = float(shown.split("at most")[1].split(",")[0])
    assert differences[0] < 1e-5 < 0.01 < differences[1]


def test_a_checkpoint_of_untied_weights_whose_configuration_says_tied(tmp_path, capsys):
    folder = write(tmp_path / "small")
    weights = load_file(folder / "model.safetensors")
    table = weights["bert.embeddings.word_embeddings.weight"]
    weights["cls.predictions.decoder.weight"] = torch.flip(table, [0]).contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    said = json_of(answer(capsys, "enlarge", folder, tmp_path / "large", "--width", "3", "--json"))
    assert said["difference"] < 1e-6
    large = AutoModelForMaskedLM.from_pretrained(tmp_path / "large")
    assert large.get_output_embeddings().weight is not large.get_input_embeddings().weight


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model that can be enlarged and others that cannot; tests only read them."""
    folder = tmp_path_factory.mktemp("folders")
    names = ("small", "headless", "other", "causal", "diverged", "endless")
    found = {name: folder / name for name in names}
    write(found["small"])
    model = PostLayerNormTransformer(Shape(8, 2, 1, 8)).build(3, 4, seed=0)
    model.bert.save_pretrained(found["headless"])
    with torch.no_grad():
        model.bert.embeddings.LayerNorm.weight[0] = torch.inf
    model.save_pretrained(found["diverged"])
    config = AlbertConfig(
        vocab_size=6, embedding_size=4, hidden_size=8, num_attention_heads=2, intermediate_size=8
    )
    AlbertForMaskedLM(config).save_pretrained(found["other"])
    GPT2Transformer(Shape(8, 2, 1, 8)).build(3, 4, seed=0).save_pretrained(found["causal"])
    weights = write(found["endless"]) / "model.safetensors"
    weights.unlink()
    weights.symlink_to("/dev/zero")
    return found


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{small}", "{out}", "--width", "0"], "--width must be at least 1, not 0"),
        (["{small}", "{out}", "--width", "2", "--layers", "-1"], "at least 0, not -1"),
        (["{small}", "{out}"], "change nothing"),
        (["{small}", "{small}", "--width", "2"], "exists already"),
        (["{headless}", "{out}", "--width", "2"], "lacks cls"),
        (["{other}", "{out}", "--width", "2"], "AlbertForMaskedLM cannot be enlarged"),
        (["{causal}", "{out}", "--width", "2"], "causal is of the type gpt2 and cannot be enlarged; give a"),
        (["{diverged}", "{out}", "--width", "2"], "not finite"),
        (["{endless}", "{out}", "--width", "2"], "model.safetensors is a device or a pipe; put a file there"),
        (["{small}", "{small}/config.json/out", "--width", "2"], "is a file, where a folder is needed"),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(arguments, sentence, folders, tmp_path, capsys):
    before = sorted(folders["small"].parent.rglob("*"))
    filled = [argument.format(out=tmp_path / "out", **folders) for argument in arguments]
    assert sentence in refused(capsys, "enlarge", *filled)
    assert not list(tmp_path.iterdir())
    assert sorted(folders["small"].parent.rglob("*")) == before


def test_a_full_disk_is_said_and_nothing_is_left(tmp_path, capsys, monkeypatch):
    small = write(tmp_path / "small")

    def full(*_arguments, **_settings):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("isoloss.models.enlarged_checkpoint.save_file", full)
    assert "No space left" in refused(capsys, "enlarge", small, tmp_path / "large", "--width", "2")
    assert [path.name for path in tmp_path.iterdir()] == ["small"]
