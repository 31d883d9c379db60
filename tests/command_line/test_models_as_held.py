"""`isoloss flatness` on folders as people hold them: a Trainer's checkpoints, a vocabulary one folder up."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from called import Capture, answer, json_of, output_of, refused
from peft import LoraConfig, PeftModel, get_peft_model

from isoloss.models.loading import load_any_language_model
from tiny_models import far_from_the_start


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
    shutil.copytree(models / "bert", tmp_path / "tuned", dirs_exist_ok=True)
    _, written, told = answer(capsys, "flatness", tmp_path / "tuned", *asked)
    assert {record["checkpoint"] for record in json.loads(written)["records"]} == {f"{tmp_path}/tuned"}
    assert f"name {tmp_path}/tuned/checkpoint-* for these" in told.replace("\n", " ")


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


def test_an_adapter_replaces_weights_by_those_that_it_makes_of_them(
    models: Path, tmp_path: Path, capsys: Capture
) -> None:
    base, adapter, merged = str(models / "gpt2"), tmp_path / "adapter", tmp_path / "merged"
    asked = LoraConfig(r=2, target_modules=["c_attn"], modules_to_save=["ln_f"], fan_in_fan_out=True)
    adapted = far_from_the_start(get_peft_model(load_any_language_model(base)[0], asked))
    adapted.save_pretrained(adapter)
    settings = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps(settings | {"base_model_name_or_path": base}))
    added = sum(each.numel() for name, each in adapted.named_parameters() if each.requires_grad)
    tensors = sum(each.requires_grad for each in adapted.parameters())
    written = output_of(answer(capsys, "inspect", adapter))
    assert f", of which {added:,} in {tensors:,} are measured and the others frozen; " in written
    (told,) = json_of(answer(capsys, "inspect", adapter, "--json"))["models"]
    assert (told["trainable_parameters"], told["trainable_tensors"]) == (added, tensors)
    assert "frozen" not in output_of(answer(capsys, "inspect", base))
    PeftModel.from_pretrained(load_any_language_model(base)[0], adapter).merge_and_unload().save_pretrained(
        merged
    )
    text = ("--text", models / "text.txt", "--sentences", 4, "--json")
    of_both = [
        json_of(answer(capsys, "sensitivity", base, *text, "--replacement", each))["records"]
        for each in (adapter, merged)
    ]
    values = [[each["value"] for each in records] for records in of_both]
    assert values[0] == pytest.approx(values[1], rel=1e-3)
    assert {each["settings"]["part"] for each in of_both[0]} == {"layer 1", "final norm", "all"}
    told = refused(capsys, "sensitivity", adapter, *text, "--replacement", base)
    assert "name another adapter, or merge this one into its base model" in told


@pytest.mark.parametrize("named", ["folder", "file"])
def test_a_gguf_file_is_told_the_way_out(named: str, tmp_path: Path, models: Path, capsys: Capture) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    asked = tmp_path if named == "folder" else tmp_path / "model.gguf"
    code, _, error = answer(capsys, "flatness", asked, "--text", models / "text.txt")
    assert code == 2
    assert "gguf_file='model.gguf'" in error
