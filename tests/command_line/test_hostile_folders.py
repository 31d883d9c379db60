"""Folders, records and packs with content that nobody would write: a sentence each, no traceback, no hang."""

import json
import os
import shutil
from pathlib import Path

import polars as pl
import pytest
import torch
from called import Capture, answer, output_of
from flatness_folders import set_in
from safetensors.torch import load_file, save_file

from hand_made_runs import SPECIFICATION, write_names, write_run
from isoloss.measurements import foreseen_cost
from isoloss.measurements.counted_passes import Counted
from isoloss.progress import silent
from isoloss.results.store import sealed
from isoloss.stored_runs import packed_records


@pytest.fixture
def bert(models: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(models / "bert", tmp_path / "bert"))


def flatness(folder: Path, models: Path) -> tuple[object, ...]:
    return "flatness", folder, "--text", models / "text.txt", "--sentences", 8


def refused(capsys: Capture, *arguments: object) -> str:
    """What the one line on stderr says of input that is refused."""
    code, written, error = answer(capsys, *arguments)
    lines = [line for line in error.splitlines() if not line.endswith(": starting")]
    assert (code in (1, 2), written, len(lines)) == (True, "", 1)
    assert lines[0].startswith("isoloss: ")
    assert "<class" not in lines[0]
    return lines[0]


CONFIGURATIONS = [
    ("hidden_size", "32", "Field 'hidden_size' expected int, got str"),
    ("hidden_size", None, "Field 'hidden_size' expected int, got NoneType"),
    ("hidden_size", 10**9, "asks for a model of more than"),
    ("hidden_size", -1, "negative dimension"),
    ("num_hidden_layers", 10**7, "config.json asks for a model with 10,000,000 as num_hidden_layers"),
    ("num_hidden_layers", 10**30, "config.json"),
    ("num_hidden_groups", 10**7, "config.json asks for a model with 10,000,000 as num_hidden_groups"),
    ("num_labels", 2 * 10**6, "config.json asks for a model with 2,000,000 as num_labels"),
    ("attention_types", [[["global"], 10**8]], "with 100,000,000 as attention_types"),
    ("num_attention_heads", 0, "a value in it is out of range (integer modulo by zero"),
    ("vocab_size", 10**9, "asks for a model of more than"),
    ("max_position_embeddings", 10**9, "asks for a model of more than"),
    (
        "pad_token_id",
        10**9,
        "in its config.json pad_token_id is 1000000000, which is no token below its vocab",
    ),
    ("vocab_size", 0, "in its config.json vocab_size is 0, which is not above 0; mend it"),
    ("hidden_act", "no such", "in its config.json hidden_act is 'no such', which transformers does not know"),
    ("hidden_act", [], "Field 'hidden_act' expected str, got list"),
    ("architectures", 5, "architectures in"),
    ("architectures", [[]], "architectures in"),
    ("architectures", "BertForMaskedLM", "architectures in"),
    ("model_type", 5, "config.json"),
    ("dtype", "float99", "has no attribute 'float99'"),
    ("add_cross_attention", True, "should be used as a decoder model"),
    ("hidden_dropout_prob", float("nan"), "hidden_dropout_prob in"),
    ("hidden_dropout_prob", 7.0, "dropout probability"),
    ("tie_word_embeddings", "no", "Field 'tie_word_embeddings' expected bool"),
    ("id2label", [1], "config.json"),
]


@pytest.mark.parametrize("command", [pytest.param("flatness", marks=pytest.mark.thorough), "compare"])
def test_names_of_weights_that_are_numbers_are_refused(
    command: str, bert: Path, models: Path, tmp_path: Path, capsys: Capture
) -> None:
    torch.save({7: torch.ones(2), **load_file(bert / "model.safetensors")}, bert / "pytorch_model.bin")
    (bert / "model.safetensors").unlink()
    on = ("--text", models / "text.txt", "--sentences", 8)
    more = (models / "other", "--output", tmp_path / "c.html") if command == "compare" else ()
    told = refused(capsys, command, bert, *more, *on)
    assert f"{bert / 'pytorch_model.bin'} names a weight 7" in told
    assert "torch.save(model.state_dict(), path)" in told


@pytest.mark.parametrize(("key", "value", "says"), CONFIGURATIONS)
def test_a_wrong_value_in_a_configuration_is_named(
    key: str, value: object, says: str, bert: Path, models: Path, capsys: Capture
) -> None:
    set_in(bert / "config.json", **{key: value})
    told = refused(capsys, *flatness(bert, models))
    assert says in told
    assert str(bert) in told or "BertForMaskedLM" in told


def test_a_byte_order_mark_in_a_configuration_is_named(bert: Path, models: Path, capsys: Capture) -> None:
    path = bert / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert f"{path} begins with a byte order mark" in refused(capsys, *flatness(bert, models))


@pytest.mark.parametrize("name", ["config.json", "adapter_config.json"])
def test_settings_that_are_no_text_are_said_to_be_none(
    name: str, bert: Path, models: Path, capsys: Capture
) -> None:
    (bert / name).write_bytes("{}".encode("utf-16"))
    assert f"{bert / name}, line 1: this is not UTF-8 text" in refused(capsys, *flatness(bert, models))


@pytest.mark.thorough
def test_a_padding_token_that_only_a_tokenizer_has_is_not_asked_of_the_model(
    models: Path, tmp_path: Path, capsys: Capture
) -> None:
    folder = Path(shutil.copytree(models / "gpt2", tmp_path / "gpt2"))
    set_in(folder / "config.json", pad_token_id=999)
    found = [answer(capsys, *flatness(each, models), "--json") for each in (folder, models / "gpt2")]
    values = [[each["value"] for each in json.loads(written)["records"]] for _, written, _ in found]
    assert values[0] == values[1]


TOKENIZERS = [
    ("tokenizer_config.json", "null"),
    ("tokenizer_config.json", "[]"),
    ("tokenizer_config.json", '"x"'),
    ("tokenizer_config.json", "[" * 100_000),
    ("tokenizer_config.json", '{"tokenizer_class": 5}'),
    ("tokenizer.json", "null"),
    ("tokenizer.json", "[]"),
    ("tokenizer.json", '{"version": "1.0"}'),
    ("tokenizer.json", "[" * 100_000),
]


@pytest.mark.parametrize(("name", "content"), TOKENIZERS)
def test_a_wrong_tokenizer_is_named(
    name: str, content: str, bert: Path, models: Path, capsys: Capture
) -> None:
    (bert / name).write_text(content)
    assert f"no tokenizer can be read from {bert}" in refused(capsys, *flatness(bert, models))


@pytest.mark.parametrize("command", ["flatness", "inspect", "compare"])
@pytest.mark.parametrize(
    "kind", ["a pipe", "a device", "a folder", "half", "empty", "a list", "names", "locked"]
)
def test_weights_that_are_none_are_refused_at_once(
    kind: str, command: str, bert: Path, models: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = bert / "model.safetensors"
    whole = weights.read_bytes()
    weights.unlink()
    match kind:
        case "a pipe":
            os.mkfifo(weights)
        case "a device":
            weights.symlink_to("/dev/zero")
        case "a folder":
            weights.mkdir()
        case "half":
            weights.write_bytes(whole[: len(whole) // 2])
        case "empty":
            weights.write_bytes(b"")
        case "a list":
            torch.save([1, 2], bert / "pytorch_model.bin")
        case "names":
            torch.save({"weights": "none"}, bert / "pytorch_model.bin")
        case "locked":
            weights.write_bytes(whole)
            monkeypatch.setattr(os, "access", lambda path, _: path != weights)
    text = ("--text", models / "text.txt")
    asked = {
        "flatness": flatness(bert, models),
        "inspect": ("inspect", bert),
        "compare": ("compare", models / "other", bert, *text, "--output", bert.parent / "c.html"),
    }
    told = refused(capsys, *asked[command])
    assert str(bert) in told
    assert ("may not be read" in told) == (kind == "locked")


def test_a_tokenizer_of_another_vocabulary_is_named(bert: Path, models: Path, capsys: Capture) -> None:
    held = json.loads((bert / "tokenizer.json").read_text())
    held["model"]["vocab"]["h"] = 500
    (bert / "tokenizer.json").write_text(json.dumps(held))
    said = "numbers its tokens up to 500, but the model has only 11"
    assert said in refused(capsys, *flatness(bert, models))
    written = output_of(answer(capsys, "inspect", bert))
    assert "warning: the tokenizer numbers its tokens up to 500; the model has only 11" in written


def test_a_tensor_that_is_not_finite_is_named(bert: Path, models: Path, capsys: Capture) -> None:
    weights = load_file(bert / "model.safetensors")
    named = "bert.encoder.layer.0.attention.self.query.weight"
    weights[named][0, 0] = float("nan")
    save_file(weights, bert / "model.safetensors", metadata={"format": "pt"})
    assert f"{named} of BertForMaskedLM holds numbers that are not finite" in refused(
        capsys, *flatness(bert, models)
    )


def test_files_of_weights_that_an_index_names_are_missed(
    bert: Path, models: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreseen_cost, "timed_layers", lambda *_: (None, "not tried"))
    monkeypatch.setattr(foreseen_cost, "counted_passes", lambda *_: Counted(1, 4, 1, 8, 8, 0, 1.0))
    (bert / "model.safetensors").rename(bert / "model-00001-of-00002.safetensors")
    index = {f"{number}": f"model-0000{number}-of-00002.safetensors" for number in (1, 2)}
    (bert / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    assert "model-00002-of-00002.safetensors" in refused(capsys, *flatness(bert, models))
    (bert / "model-00001-of-00002.safetensors").unlink()
    written = output_of(answer(capsys, "inspect", bert))
    assert "the folder lacks 2 of the 2 files that its index of weights names" in written


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("sub/weights", "is a device or a pipe"),
        ("/dev/zero", "is not in the folder"),
        ("../x", "is not in the"),
    ],
)
def test_what_an_index_names_is_no_pipe_and_in_the_folder(
    named: str, says: str, bert: Path, models: Path, capsys: Capture
) -> None:
    (bert / "model.safetensors").unlink()
    (bert / "sub").mkdir()
    os.mkfifo(bert / "sub" / "weights")
    index = {"metadata": {}, "weight_map": {"x": named}}
    (bert / "model.safetensors.index.json").write_text(json.dumps(index))
    for arguments in (flatness(bert, models), ("inspect", bert)):
        assert says in refused(capsys, *arguments)


def test_rounded_weights_beside_a_configuration_are_named(bert: Path, models: Path, capsys: Capture) -> None:
    (bert / "model.safetensors").rename(bert / "model.gguf")
    for arguments in (flatness(bert, models), ("inspect", bert)):
        assert "model.gguf is a GGUF file" in refused(capsys, *arguments)


DIGEST = "0123456789abcdef"
ROW = {
    **dict.fromkeys(packed_records.SCHEMA),
    **{"run": DIGEST, "step": 10, "measurement": DIGEST, "quantity": "loss", "value": 1.0, "unit": "nats"},
    **{"standard_error": 0.1, "n": 3, "seed": 1, "checkpoint": "", "sentence_values": [1.0, 2.0, 3.0]},
    "settings": json.dumps({"step": 10, "measured_on": DIGEST}),
    "specification": json.dumps(sealed(SPECIFICATION, "specification.json")),
    "plan": json.dumps(sealed({"digest": DIGEST}, "plan.json")),
    "checkpoints": json.dumps([{"step": 10}]),
}
PACKS = [
    ("run", None),
    ("run", "../x"),
    ("value", None),
    ("value", float("inf")),
    ("settings", "null"),
    ("settings", "[" * 100_000),
    ("specification", "null"),
    ("plan", "null"),
    ("plan", "[" * 100_000),
    ("checkpoints", "5"),
    ("checkpoints", "null"),
    ("checkpoints", "[5]"),
    ("checkpoints", '[{"step": null}]'),
    ("checkpoints", "[" * 100_000),
    ("checkpoints", '[{"step": 10, "training_loss": "x"}]'),
    ("checkpoints", '[{"step": 10, "readings": {"lambda": "x"}}]'),
    ("checkpoints", '[{"step": 10, "readings": 5}]'),
    ("language_file", "../x"),
    ("metadata", "null"),
    ("metadata", "[" * 100_000),
    ("metadata", "5"),
]


@pytest.mark.parametrize(("column", "value"), PACKS)
def test_a_pack_with_other_content_is_refused_whole(
    column: str, value: object, tmp_path: Path, capsys: Capture
) -> None:
    row = ROW if column == "metadata" else ROW | {column: value}
    frame = pl.DataFrame([row], schema=packed_records.SCHEMA)
    said = json.dumps({"format": "1", "digest": packed_records._digest(frame, silent)})
    path = tmp_path / "pack.parquet"
    frame.write_parquet(path, metadata={"isoloss": str(value) if column == "metadata" else said})
    assert str(path) in refused(capsys, "records", "unpack", path, tmp_path / "results")
    assert not list((tmp_path / "results").glob("runs/*"))


def test_the_pack_that_the_others_are_made_of_is_unpacked(tmp_path: Path, capsys: Capture) -> None:
    frame = pl.DataFrame([ROW], schema=packed_records.SCHEMA)
    said = json.dumps({"format": "1", "digest": packed_records._digest(frame, silent)})
    frame.write_parquet(tmp_path / "pack.parquet", metadata={"isoloss": said})
    assert answer(capsys, "records", "unpack", tmp_path / "pack.parquet", tmp_path / "results")[0] == 0
    assert answer(capsys, "runs", tmp_path / "results")[0] == 0


@pytest.mark.parametrize("command", ["runs", "records"])
def test_what_may_not_be_read_is_not_called_empty_or_damaged(
    command: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = tmp_path / "locked"

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(locked))

    if command == "runs":
        locked.mkdir()
        monkeypatch.setattr(os, "scandir", denied)
        told = refused(capsys, "runs", locked)
    else:
        locked.touch()
        monkeypatch.setattr(Path, "read_bytes", denied)
        told = refused(capsys, "records", "unpack", locked, tmp_path / "results")
    assert f"cannot use {locked}: Permission denied" in told


@pytest.mark.parametrize("command", ["runs", "show", "missing"])
def test_control_characters_of_names_do_not_reach_the_terminal(
    command: str, tmp_path: Path, capsys: Capture
) -> None:
    run = write_run(tmp_path, "aaaa1111", rule="\x1b[2Jhidden")
    write_names(tmp_path, "figure-1", {"aaaa1111": "\x1b]0;title\x07"})
    asked = {"runs": (tmp_path,), "show": (run,)}
    if command == "missing":
        _, written, error = answer(capsys, "flatness", "bert", "--text", "./\x1b[2J")
    else:
        _, written, error = answer(capsys, command, *asked[command])
    assert "\x1b" not in written + error
    assert "\\u001b" in written + error


def test_a_folder_whose_name_is_not_utf_8_is_not_called_damaged(
    bert: Path, models: Path, capsys: Capture
) -> None:
    other = bert.rename(bert.with_name(os.fsdecode(b"caf\xe9")))
    code, written, error = answer(capsys, "flatness", other, "--text", models / "text.txt")
    assert (code, written) == (2, "")
    assert r"caf\udce9 is not UTF-8, which reading weights requires; rename the folder" in error
