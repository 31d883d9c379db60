import json
import re
import resource
import shutil
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from runs import FORK, LANGUAGE, SPECIFICATION, TOKENIZER, TRAINING_STATE, trained, write
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertForMaskedLM

from isoloss.errors import IsolossError
from isoloss.models.loading import load_masked_language_model
from isoloss.models.transformers import PostLayerNormTransformer, PreLayerNormTransformer
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.checkpoint_writing import (
    remove_leftovers,
    remove_superseded_states,
    restore,
    write_checkpoint,
)
from isoloss.pretraining.stream import Stream
from isoloss.results.checkpoint import checkpoint_folders, latest_checkpoint, read_checkpoint


@pytest.mark.parametrize("architecture", [PostLayerNormTransformer, PreLayerNormTransformer])
def test_transformers_loads_the_folder_by_itself(architecture: type, tmp_path: Path) -> None:
    model, rule = trained(2, architecture)
    folder = write_checkpoint(tmp_path, 5, 0.25, SPECIFICATION, model, TOKENIZER, rule).folder
    alone = shutil.copytree(folder, tmp_path / "elsewhere")
    own = BertForMaskedLM if architecture is PostLayerNormTransformer else type(model)
    tokenizer = AutoTokenizer.from_pretrained(alone)
    inputs = tokenizer(["heads [MASK] tails", "tails [MASK]"], padding=True, return_tensors="pt")
    expected = model.eval()(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
    for cls in (own, AutoModelForMaskedLM):
        loaded, found = cls.from_pretrained(alone, output_loading_info=True)
        assert not any(found[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        assert loaded.get_input_embeddings().weight is loaded.get_output_embeddings().weight
        given = loaded(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits
        torch.testing.assert_close(given, expected)
    assert all(map(torch.equal, load_masked_language_model(alone).parameters(), model.parameters()))


def test_the_record_names_step_loss_settings_versions_and_every_file(tmp_path: Path) -> None:
    checkpoint = write(tmp_path, 5, loss=0.25)
    record = json.loads((checkpoint.folder / "checkpoint.json").read_text())
    assert (
        (record["step"], record["training_loss"]) == (5, 0.25) == (checkpoint.step, checkpoint.training_loss)
    )
    assert record["specification_digest"] == SPECIFICATION.digest
    assert record["specification"]["architecture"]["is"] == "PreLayerNormTransformer"
    assert record["versions"]["torch"] == torch.__version__
    assert record["versions"]["device"] == "cpu"
    there = {path.name for path in checkpoint.folder.iterdir()}
    assert there == {*record["files"], "checkpoint.json", TRAINING_STATE, "training_state.sha256"}
    assert {"model.safetensors", "config.json", "tokenizer.json"} < record["files"].keys()
    assert record["files"]["model.safetensors"] == checkpoint.digest
    assert read_checkpoint(checkpoint.folder) == checkpoint


@pytest.mark.parametrize("architecture", [PostLayerNormTransformer, PreLayerNormTransformer])
def test_restoring_gives_back_every_bit_and_keeps_tensors_tied(architecture: type, tmp_path: Path) -> None:
    model, rule = trained(3, architecture)
    checkpoint = write_checkpoint(tmp_path, 3, 0.5, SPECIFICATION, model, TOKENIZER, rule)
    fresh, fresh_rule = trained(1, architecture)
    restore(checkpoint, fresh, fresh_rule)
    assert all(map(torch.equal, model.parameters(), fresh.parameters()))
    assert fresh.get_input_embeddings().weight is fresh.get_output_embeddings().weight
    batch = Stream(LANGUAGE, MaskedObjective(), 16, 0).batch(3)
    assert torch.equal(rule.step(batch, 4), fresh_rule.step(batch, 4))
    assert all(map(torch.equal, model.parameters(), fresh.parameters()))


def test_training_state_is_kept_in_the_two_newest(tmp_path: Path) -> None:
    for step in (5, 10, 1_000_000, 20):
        write(tmp_path, step)
    folders = checkpoint_folders(tmp_path)
    assert [folder.name for folder in folders] == ["000005", "000010", "000020", "1000000"]
    kept = [(folder / TRAINING_STATE).exists() for folder in folders]
    assert kept == [False, True, True, True]
    assert [read_checkpoint(folder).step for folder in folders] == [5, 10, 20, 1_000_000]


def test_training_state_that_a_kill_left_is_removed(tmp_path: Path) -> None:
    for step in (5, 10, 20):
        write(tmp_path, step)
    first = tmp_path / "steps" / "000005"
    (first / TRAINING_STATE).write_bytes(b"left between the renaming and the removal")
    (tmp_path / f".specification.json.{'a' * 32}.part").touch()
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["steps"]
    remove_superseded_states(tmp_path, 10)
    assert (first / TRAINING_STATE).exists()
    remove_superseded_states(tmp_path, 20)
    assert not (first / TRAINING_STATE).exists()


def test_a_run_without_checkpoints_has_no_latest(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path) == (None, ())
    assert checkpoint_folders(tmp_path / "missing") == []
    (tmp_path / "steps" / "²").mkdir(parents=True)
    assert checkpoint_folders(tmp_path) == []


def test_a_damaged_folder_is_replaced_and_leftovers_are_removed(tmp_path: Path) -> None:
    checkpoint = write(tmp_path, 5)
    (checkpoint.folder / "model.safetensors").write_bytes(b"harmed")
    (checkpoint.folder / "stray").write_text("from elsewhere")
    assert write(tmp_path, 5) == checkpoint
    assert read_checkpoint(checkpoint.folder) == checkpoint
    assert not (checkpoint.folder / "stray").exists()
    half = tmp_path / "steps" / f".000010.{'a' * 32}.part"
    half.mkdir()
    (half / "config.json").write_text("{")
    remove_leftovers(tmp_path)
    assert [path.name for path in (tmp_path / "steps").iterdir()] == ["000005"]


BYTES_A_FILE = (100, 900, 1000, 1500, 3000, 5000, 10_000)


def _write_with_little_room(run: Path, answer: Connection) -> None:
    """Of each size at the most: the error, and what is there afterwards."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    for most in BYTES_A_FILE:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, BYTES_A_FILE[-1]))
        try:
            write(run, 10)
        except Exception as error:
            left = [path.name for path in (run / "steps").iterdir()]
            answer.send((type(error), str(error), latest_checkpoint(run), left))


def test_a_disk_that_refuses_gives_a_sentence_and_leaves_what_was_there(tmp_path: Path) -> None:
    """The system's own refusal, at the first file that is too large."""
    before = write(tmp_path, 5)
    here, there = FORK.Pipe()
    process = FORK.Process(target=_write_with_little_room, args=(tmp_path, there))
    process.start()
    for most in BYTES_A_FILE:
        assert here.poll(60), most
        kind, sentence, latest, left = here.recv()
        assert kind is IsolossError
        assert re.fullmatch(r"cannot write in .*: File too large.*; free some space, .*", sentence)
        assert latest == (before, ())
        assert left == ["000005"]
    process.join()
