"""`isoloss flatness` on folders as people hold them: a Trainer's checkpoints, a vocabulary one folder up."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
import torch
from called import answer
from flatness_folders import save_models
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from isoloss.models.tokenizer import word_tokenizer

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    save_models(folder)
    return folder


def test_a_folder_of_checkpoints_stands_for_all_of_them_by_step(
    saved: Path, tmp_path: Path, capsys: Capture
) -> None:
    for step, model in ((1000, "bert"), (500, "other")):
        shutil.copytree(saved / model, tmp_path / "tuned" / f"checkpoint-{step}")
    asked = ("--text", saved / "text.txt", "--sentences", 8, "--json")
    code, written, _ = answer(capsys, "flatness", tmp_path / "tuned", *asked)
    assert code == 0
    named = list(dict.fromkeys(record["checkpoint"] for record in json.loads(written)["records"]))
    assert named == [f"{tmp_path}/tuned/checkpoint-{step}" for step in (500, 1000)]
    apart = [f"{tmp_path}/tuned/checkpoint-{step}" for step in (500, 1000)]
    assert json.loads(answer(capsys, "flatness", *apart, *asked)[1]) == json.loads(written)


def test_a_vocabulary_one_folder_up_is_found(saved: Path, tmp_path: Path, capsys: Capture) -> None:
    shutil.copytree(saved / "bert", tmp_path / "vocabulary" / "model")
    for path in (tmp_path / "vocabulary" / "model").glob("tokenizer*"):
        path.rename(tmp_path / "vocabulary" / path.name)
    asked = ("--text", saved / "text.txt", "--sentences", 8, "--json")
    code, written, _ = answer(capsys, "flatness", tmp_path / "vocabulary" / "model", *asked)
    assert code == 0
    beside = json.loads(answer(capsys, "flatness", saved / "bert", *asked)[1])["records"]
    assert [each["value"] for each in json.loads(written)["records"]] == [each["value"] for each in beside]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_a_table_is_measured_on_as_its_texts_are(
    ending: str, saved: Path, tmp_path: Path, capsys: Capture
) -> None:
    texts = (saved / "text.txt").read_text().splitlines()
    table = pl.DataFrame({"stars": list(range(len(texts))), "text": texts, "note": ["x"] * len(texts)})
    path = tmp_path / f"table.{ending}"
    match ending:
        case "csv":
            table.write_csv(path)
        case "tsv":
            table.write_csv(path, separator="\t")
        case "jsonl":
            table.write_ndjson(path)
        case "json":
            table.write_json(path)
        case "parquet":
            table.write_parquet(path)
    asked = ("flatness", saved / "bert", "--sentences", 16, "--json", "--text")
    code, written, _ = answer(capsys, *asked, path)
    assert code == 0
    alone = json.loads(answer(capsys, *asked, saved / "text.txt")[1])
    assert json.loads(written)["records"] == alone["records"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "is quantised (gptq)"),
        ({"architectures": ["BertForQuestionAnswering"]}, "that it was made from"),
    ],
)
def test_what_has_no_gradient_or_no_tokens_is_told_what_to_measure(
    content: dict[str, object], says: str, saved: Path, tmp_path: Path, capsys: Capture
) -> None:
    folder = Path(shutil.copytree(saved / "bert", tmp_path / "bert"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | content))
    code, _, error = answer(capsys, "flatness", folder, "--text", saved / "text.txt")
    assert code == 2
    assert says in error
    assert "install" not in error


@pytest.mark.parametrize("named", ["folder", "file"])
def test_a_gguf_file_is_told_the_way_out(named: str, tmp_path: Path, saved: Path, capsys: Capture) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    asked = tmp_path if named == "folder" else tmp_path / "model.gguf"
    code, _, error = answer(capsys, "flatness", asked, "--text", saved / "text.txt")
    assert code == 2
    assert "gguf_file='model.gguf'" in error


LETTERS = list("abcdefgh")


def saved_model(model: PreTrainedModel, folder: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def table_of(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


HEADS = {
    "text": (BertForSequenceClassification, BertConfig),
    "token": (BertForTokenClassification, BertConfig),
    "target": (T5ForConditionalGeneration, T5Config),
}
ROWS: dict[str, list[dict[str, object]]] = {
    "text": [
        {"text": "a b c", "label": "bad"},
        {"text": "d e", "label": "good"},
        {"text": "a", "label": "bad"},
    ],
    "token": [
        {"tokens": ["a", "b"], "tags": [0, 1]},
        {"tokens": ["c", "d", "e"], "tags": ["good", "bad", 0]},
    ],
    "target": [{"source": "a b c", "target": "d"}, {"source": "e f", "target": "g h a"}],
}


def model_with_head(head: str, folder: Path) -> Path:
    kind, configuration = HEADS[head]
    size: dict[str, int] = {"vocab_size": len(LETTERS) + 3}
    if head == "target":
        size |= {
            "d_model": 8,
            "d_kv": 4,
            "d_ff": 8,
            "num_layers": 1,
            "num_heads": 2,
            "decoder_start_token_id": 0,
        }
    else:
        size |= {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    labels = (
        {} if head == "target" else {"label2id": {"bad": 0, "good": 1}, "id2label": {0: "bad", 1: "good"}}
    )
    return saved_model(kind(configuration(**size, **labels)), folder, word_tokenizer(LETTERS, 8))


@pytest.mark.parametrize("head", list(HEADS))
def test_a_model_with_the_head_of_a_task_is_measured_with_its_own_loss(
    head: str, tmp_path: Path, capsys: Capture
) -> None:
    folder, rows = model_with_head(head, tmp_path / "model"), ROWS[head]
    asked = ("--text", table_of(tmp_path / "table.jsonl", rows), "--json", "--quantity")
    code, written, error = answer(capsys, "flatness", folder, *asked, "fisher_trace", "pretraining_loss")
    assert code == 0, error
    records = {each["quantity"]: each for each in json.loads(written)["records"]}
    assert records["fisher_trace"]["value"] > 0
    kind, _ = HEADS[head]
    model, tokenizer = kind.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    losses = []
    for row in rows:
        if head == "token":
            named = {"bad": 0, "good": 1}
            labels = [[-100, *(named.get(tag, tag) for tag in row["tags"])]]
            read = tokenizer([row["tokens"]], is_split_into_words=True, return_tensors="pt")
        else:
            source = row["text" if head == "text" else "source"]
            labels = (
                [int(row["label"] == "good")] if head == "text" else tokenizer([row["target"]])["input_ids"]
            )
            read = tokenizer(source, return_tensors="pt")
        losses.append(float(model(input_ids=read["input_ids"], labels=torch.tensor(labels)).loss.detach()))
    assert records["pretraining_loss"]["value"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)


@pytest.mark.parametrize("head", ["text", "target"])
def test_damage_to_a_model_with_the_head_of_a_task_is_not_predicted(
    head: str, tmp_path: Path, capsys: Capture
) -> None:
    folder, text = model_with_head(head, tmp_path / "model"), tmp_path / "sentences.txt"
    text.write_text("a b c\nd e\n")
    code, _, error = answer(capsys, "sensitivity", folder, "--text", text)
    assert code == 2
    assert "has the head of a task, which only `isoloss flatness` measures" in error


@pytest.mark.parametrize(
    ("head", "rows", "says"),
    [
        ("text", [{"text": "a"}, {"text": "b"}], "has no column 'label'"),
        ("text", [{"text": "a", "label": "odd"}, {"text": "b", "label": 0}], "no class 'odd', but 0, 1, bad"),
        ("token", [{"tokens": ["a"], "labels": []}], "must be lists of one length"),
        ("target", [{"text": "a"}], "has no columns 'source' and 'target'"),
    ],
)
def test_a_table_that_does_not_fit_the_head_is_refused(
    head: str, rows: list[dict[str, object]], says: str, tmp_path: Path, capsys: Capture
) -> None:
    folder = model_with_head(head, tmp_path / "model")
    code, _, error = answer(capsys, "flatness", folder, "--text", table_of(tmp_path / "table.jsonl", rows))
    assert (code, error.count("\n")) == (2, 1)
    assert says in error
    code, _, error = answer(capsys, "flatness", folder, "--text", __file__)
    assert (code, error.count("\n")) == (2, 1)
    assert "is no table" in error
