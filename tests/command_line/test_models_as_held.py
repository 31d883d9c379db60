"""`isoloss flatness` on folders as people hold them: a Trainer's checkpoints, a vocabulary one folder up."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from called import Capture, answer, json_of, output_of, refused
from peft import LoraConfig, get_peft_model

from isoloss.models.loading import load_any_language_model


def test_a_folder_of_checkpoints_stands_for_all_of_them_by_step(
    models: Path, tmp_path: Path, capsys: Capture
) -> None:
    for step, model in ((1000, "bert"), (500, "other")):
        shutil.copytree(models / model, tmp_path / "tuned" / f"checkpoint-{step}")
    asked = ("--text", models / "text.txt", "--sentences", 8, "--json")
    written = output_of(answer(capsys, "flatness", tmp_path / "tuned", *asked))
    named = list(dict.fromkeys(record["checkpoint"] for record in json.loads(written)["records"]))
    assert named == [f"{tmp_path}/tuned/checkpoint-{step}" for step in (500, 1000)]
    apart = [f"{tmp_path}/tuned/checkpoint-{step}" for step in (500, 1000)]
    assert json.loads(answer(capsys, "flatness", *apart, *asked)[1]) == json.loads(written)


def test_a_vocabulary_one_folder_up_is_found(models: Path, tmp_path: Path, capsys: Capture) -> None:
    shutil.copytree(models / "bert", tmp_path / "vocabulary" / "model")
    for path in (tmp_path / "vocabulary" / "model").glob("tokenizer*"):
        path.rename(tmp_path / "vocabulary" / path.name)
    asked = ("--text", models / "text.txt", "--sentences", 8, "--json")
    written = output_of(answer(capsys, "flatness", tmp_path / "vocabulary" / "model", *asked))
    beside = json.loads(answer(capsys, "flatness", models / "bert", *asked)[1])["records"]
    assert [each["value"] for each in json.loads(written)["records"]] == [each["value"] for each in beside]


def test_a_table_is_measured_on_as_its_texts_are(models: Path, tmp_path: Path, capsys: Capture) -> None:
    texts = (models / "text.txt").read_text().splitlines()
    table = pl.DataFrame({"stars": list(range(len(texts))), "text": texts, "note": ["x"] * len(texts)})
    table.write_csv(tmp_path / "table.csv")
    table.write_csv(tmp_path / "table.tsv", separator="\t")
    table.write_ndjson(tmp_path / "table.jsonl")
    table.write_json(tmp_path / "table.json")
    table.write_parquet(tmp_path / "table.parquet")
    asked = ("flatness", models / "bert", "--sentences", 16, "--json", "--text")
    alone = json_of(answer(capsys, *asked, models / "text.txt"))["records"]
    tables = list(tmp_path.glob("table.*"))
    assert len(tables) == 5
    for path in tables:
        assert json_of(answer(capsys, *asked, path))["records"] == alone, path


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "is quantised (gptq)"),
        ({"architectures": ["BertForQuestionAnswering"]}, "that it was made from"),
    ],
)
def test_what_has_no_gradient_or_no_tokens_is_told_what_to_measure(
    content: dict[str, object], says: str, models: Path, tmp_path: Path, capsys: Capture
) -> None:
    folder = Path(shutil.copytree(models / "bert", tmp_path / "bert"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | content))
    code, _, error = answer(capsys, "flatness", folder, "--text", models / "text.txt")
    assert code == 2
    assert says in error
    assert "install" not in error


def test_an_adapter_in_place_of_weights_is_told_to_be_merged(
    models: Path, tmp_path: Path, capsys: Capture
) -> None:
    base = str(models / "gpt2")
    asked = LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)
    get_peft_model(load_any_language_model(base)[0], asked).save_pretrained(tmp_path / "adapter")
    settings = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    settings |= {"base_model_name_or_path": base}
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(settings))
    text = ("--text", models / "text.txt")
    told = refused(capsys, "sensitivity", base, *text, "--replacement", tmp_path / "adapter")
    assert "merge the adapter into its base model, and name the folder of the merged model" in told


@pytest.mark.parametrize("named", ["folder", "file"])
def test_a_gguf_file_is_told_the_way_out(named: str, tmp_path: Path, models: Path, capsys: Capture) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    asked = tmp_path if named == "folder" else tmp_path / "model.gguf"
    code, _, error = answer(capsys, "flatness", asked, "--text", models / "text.txt")
    assert code == 2
    assert "gguf_file='model.gguf'" in error
