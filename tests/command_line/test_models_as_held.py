"""`isoloss flatness` on folders as people hold them: a Trainer's checkpoints, a vocabulary one folder up."""

import json
import re
import shutil
from pathlib import Path

import gguf
import numpy as np
import polars as pl
import pytest
import transformers
from called import Capture, answer, json_of, output_of, refused
from flatness_folders import set_in
from peft import LoraConfig, PeftModel, get_peft_model

from isoloss.models.loading import load_any_language_model
from tiny_models import far_from_the_start


def test_a_folder_of_checkpoints_stands_for_all_of_them_by_step(
    models: Path, tmp_path: Path, capsys: Capture
) -> None:
    for step, model in ((1000, "bert"), (500, "other")):
        shutil.copytree(models / model, tmp_path / "tuned" / f"checkpoint-{step}")
    asked = ("--text", models / "text.txt", "--sentences", 8, "--quantity", "pretraining_loss", "--json")
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


@pytest.mark.thorough
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
    set_in(folder / "config.json", **content)
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
    set_in(adapter / "adapter_config.json", base_model_name_or_path=base)
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
    alone = output_of(answer(capsys, "sensitivity", adapter, *text[:-1], "--round", 4))
    frozen = sum(not each.requires_grad for each in adapted.parameters())
    assert f"{frozen} tensors are frozen and left out" in " ".join(alone.split())
    told = refused(capsys, "sensitivity", adapter, *text, "--replacement", base)
    assert "name another adapter, or merge this one into its base model" in told


@pytest.mark.parametrize("named", ["folder", "file"])
def test_a_gguf_file_is_told_the_way_out(named: str, tmp_path: Path, models: Path, capsys: Capture) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    asked = tmp_path if named == "folder" else tmp_path / "model.gguf"
    code, _, error = answer(capsys, "flatness", asked, "--text", models / "text.txt")
    assert code == 2
    assert "gguf_file='model.gguf'" in error


@pytest.mark.thorough
def test_what_a_gguf_file_is_told_makes_a_folder_that_is_measured(tmp_path: Path, capsys: Capture) -> None:
    """The message's two calls are carried out as they are written."""
    write_gguf_llama(tmp_path / "model.gguf")
    text = tmp_path / "text.txt"
    text.write_text("abacab\ngafebad\n" * 20)
    error = refused(capsys, "flatness", tmp_path / "model.gguf", "--text", text)
    calls = re.findall(r"(transformers\.\w+\.from_pretrained\(.*?\))(?:, and|, save)", error)
    assert len(calls) == 2
    for call in calls:
        eval(call, {"transformers": transformers}).save_pretrained(tmp_path / "whole")
    asked = ("flatness", tmp_path / "whole", "--text", text, "--sentences", 8, "--json")
    (trace, *_) = json_of(answer(capsys, *asked))["records"]
    model, _ = load_any_language_model(str(tmp_path / "whole"))
    assert model.lm_head.weight.unique().numel() > 256  # eight bits a block, each with a scale
    assert trace["value"] > 0


def write_gguf_llama(path: Path) -> None:
    """A Llama of one layer in blocks of 8 bits, and a tokenizer of letters."""
    width, inner, tokens = 32, 64, ["<unk>", "<s>", "</s>", *"abcdefg", "ab", "<|endoftext|>"]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(16)
    writer.add_embedding_length(width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(2)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // 2)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_merges(["a b"])
    writer.add_token_types([1] * len(tokens))
    for add, token in (
        (writer.add_unk_token_id, 0),
        (writer.add_bos_token_id, 1),
        (writer.add_eos_token_id, 2),
    ):
        add(token)
    attention = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (width, width))
    layer = {**attention, "ffn_gate": (inner, width), "ffn_up": (inner, width), "ffn_down": (width, inner)}
    shapes = {name: (len(tokens), width) for name in ("token_embd", "output")}
    shapes |= {f"blk.0.{name}": shape for name, shape in layer.items()}
    generator, eight_bits = np.random.default_rng(0), gguf.GGMLQuantizationType.Q8_0
    for name, shape in shapes.items():
        blocks = gguf.quants.quantize(generator.normal(size=shape).astype(np.float32), eight_bits)
        writer.add_tensor(f"{name}.weight", blocks, raw_dtype=eight_bits)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
