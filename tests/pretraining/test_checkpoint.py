import hashlib
import json
import multiprocessing
import re
import resource
import shutil
import signal
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch
from runs import LANGUAGE, small
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertForMaskedLM

from isoloss.errors import Damaged, IsolossError
from isoloss.measurements.fine_tuning_run import load_classifier
from isoloss.models.loading import load_any_language_model, load_masked_language_model, refuse_bare_encoder
from isoloss.models.tokenizer import load_tokenizer, word_tokenizer
from isoloss.models.transformers import PostLayerNormTransformer, PreLayerNormTransformer, Shape
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.checkpoint_writing import (
    remove_leftovers,
    remove_superseded_states,
    restore,
    write_checkpoint,
)
from isoloss.pretraining.specification import claim, settings_as_json
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training, UpdateRule
from isoloss.results.checkpoint import (
    Checkpoint,
    checkpoint_folders,
    latest_checkpoint,
    read_checkpoint,
    refuse_damaged,
)
from isoloss.results.store import write_sealed

FORK = multiprocessing.get_context("fork")
SPECIFICATION = small()
TOKENIZER = word_tokenizer(LANGUAGE.vocabulary, LANGUAGE.maximum_length)
TRAINING_STATE = "training_state.pt"


def trained(steps: int, architecture: type = PreLayerNormTransformer) -> tuple[torch.nn.Module, UpdateRule]:
    model = architecture(Shape(8, 2, 1, 16), dropout=0.0).build(2, LANGUAGE.maximum_length, seed=0).train()
    rule = SPECIFICATION.update_rule.build(
        Training(model, MaskedObjective(), LANGUAGE, 0, SPECIFICATION.steps, SPECIFICATION.batch_size)
    )
    stream = Stream(LANGUAGE, MaskedObjective(), 16, 0)
    for step in range(1, steps + 1):
        rule.step(stream.batch(step - 1), step)
    return model, rule


def write(
    run: Path, step: int, loss: float = 0.5, architecture: type = PreLayerNormTransformer
) -> Checkpoint:
    model, rule = trained(2, architecture)
    return write_checkpoint(run, step, loss, SPECIFICATION, model, TOKENIZER, rule)


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


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", TRAINING_STATE])
@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "remove"])
def test_a_damaged_newest_is_named_and_the_one_before_used(name: str, harm: str, tmp_path: Path) -> None:
    before, newest = write(tmp_path, 5), write(tmp_path, 10)
    path = newest.folder / name
    content = bytearray(path.read_bytes())
    if harm == "flip":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif harm == "remove":
        path.unlink()
    else:
        path.write_bytes(content[: len(content) // 2 if harm == "cut" else 0])

    latest, damaged = latest_checkpoint(tmp_path)
    assert latest == before
    assert len(damaged) == 1
    assert str(newest.folder) in damaged[0]
    assert name in damaged[0]
    assert damaged[0].endswith("training goes on from before it and makes it again")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"step": 5, "training_loss": 1, "files": {}}', "\0"]
)
def test_an_unreadable_record_is_damage(content: str, tmp_path: Path) -> None:
    checkpoint = write(tmp_path, 5)
    (checkpoint.folder / "checkpoint.json").write_text(content)
    with pytest.raises(
        IsolossError, match=r"000005 is damaged: checkpoint\.json .*; delete the run's folder"
    ):
        read_checkpoint(checkpoint.folder)
    assert latest_checkpoint(tmp_path)[0] is None


@pytest.mark.parametrize("content", [None, b"", b"\xff"])
def test_a_training_state_whose_digest_is_lost_is_not_trusted(content: bytes | None, tmp_path: Path) -> None:
    folder = write(tmp_path, 5).folder
    (folder / "training_state.sha256").unlink()
    if content is not None:
        (folder / "training_state.sha256").write_bytes(content)
    with pytest.raises(IsolossError, match=r"000005 is damaged: training_state\.sha256 cannot be read"):
        read_checkpoint(folder)
    assert latest_checkpoint(tmp_path)[0] is None


def test_a_flipped_digest_of_the_training_state_blames_no_other_file(tmp_path: Path) -> None:
    folder = write(tmp_path, 5).folder
    path = folder / "training_state.sha256"
    whole = path.read_text()
    path.write_text(whole.replace(whole[3], "0" if whole[3] != "0" else "1", 1))
    with pytest.raises(IsolossError, match=r"training_state\.sha256 is not what was written"):
        read_checkpoint(folder)


@pytest.mark.parametrize("name", ["checkpoint.json", "training_state.sha256"])
def test_what_is_of_another_step_is_damage(name: str, tmp_path: Path) -> None:
    before, newest = write(tmp_path, 5), write(tmp_path, 10)
    shutil.copy(before.folder / name, newest.folder / name)
    latest, damaged = latest_checkpoint(tmp_path)
    assert latest == before
    assert name in damaged[0]


def test_a_record_in_which_one_digit_changed_is_damage(tmp_path: Path) -> None:
    folder = write(tmp_path, 5).folder
    record = folder / "checkpoint.json"
    record.write_text(record.read_text().replace('"training_loss": 0.5', '"training_loss": 0.6'))
    with pytest.raises(IsolossError, match=r"checkpoint\.json cannot be read, or is not what was written"):
        read_checkpoint(folder)


def test_another_runs_checkpoint_is_not_gone_on_from(tmp_path: Path) -> None:
    own = write(tmp_path / "own", 5)
    claim(tmp_path / "own", SPECIFICATION)
    assert latest_checkpoint(tmp_path / "own")[0] == own
    shutil.copytree(own.folder, tmp_path / "other" / "steps" / "000005")
    with (tmp_path / "other" / "specification.json").open("w") as file:
        json.dump(settings_as_json(replace(SPECIFICATION, seed=900)), file)
    latest, damaged = latest_checkpoint(tmp_path / "other")
    assert latest is None
    assert "is of another run than" in damaged[0]


def test_a_checkpoint_of_an_older_isoloss_is_read(tmp_path: Path) -> None:
    checkpoint = write(tmp_path, 5)
    record = json.loads((checkpoint.folder / "checkpoint.json").read_text())
    del record["sha256"]
    (checkpoint.folder / "checkpoint.json").write_text(json.dumps(record))
    digest, _ = (checkpoint.folder / "training_state.sha256").read_text().split()
    (checkpoint.folder / "training_state.sha256").write_text(digest)
    assert latest_checkpoint(tmp_path) == (checkpoint, ())


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


class Foreign:
    def __reduce__(self) -> tuple[object, ...]:
        return SystemExit, ("code from a checkpoint was run",)


@pytest.mark.parametrize(
    "state", [Foreign(), {"another": 1}, [1], "text"], ids=["code", "object", "list", "text"]
)
def test_a_foreign_training_state_is_refused_in_a_sentence_and_not_run(state: object, tmp_path: Path) -> None:
    checkpoint = write(tmp_path, 5)
    path = checkpoint.folder / TRAINING_STATE
    torch.save(state, path)
    (checkpoint.folder / "training_state.sha256").write_text(hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(IsolossError, match=r"training_state\.pt is damaged or foreign: it holds no training"):
        restore(read_checkpoint(checkpoint.folder), *trained(1))


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
    (tmp_path / "steps" / ".000010.half.part").mkdir()
    (tmp_path / "steps" / ".000010.half.part" / "config.json").write_text("{")
    remove_leftovers(tmp_path)
    assert [path.name for path in (tmp_path / "steps").iterdir()] == ["000005"]


def _write_with_little_room(run: Path, bytes_a_file: int, answer: Connection) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_a_file, bytes_a_file))
    try:
        write(run, 10)
    except Exception as error:
        answer.send((type(error), str(error)))


@pytest.mark.parametrize("bytes_a_file", [100, 900, 1000, 1500, 3000, 5000, 10_000])
def test_a_disk_that_refuses_gives_a_sentence_and_leaves_what_was_there(
    bytes_a_file: int, tmp_path: Path
) -> None:
    """The system's own refusal, at the first file that is too large."""
    before = write(tmp_path, 5)
    here, there = FORK.Pipe()
    process = FORK.Process(target=_write_with_little_room, args=(tmp_path, bytes_a_file, there))
    process.start()
    assert here.poll(60)
    kind, sentence = here.recv()
    process.join()
    assert kind is IsolossError
    assert re.fullmatch(r"cannot write in .*: File too large.*; free some space, .*", sentence)
    assert latest_checkpoint(tmp_path) == (before, ())
    assert [path.name for path in (tmp_path / "steps").iterdir()] == ["000005"]


LOADERS = {
    "masked": load_masked_language_model,
    "any": lambda folder: load_any_language_model(str(folder)),
    "head": lambda folder: refuse_bare_encoder(str(folder)),
    "tokenizer": lambda folder: load_tokenizer(str(folder)),
    "classifier": lambda folder: load_classifier(folder, ("a", "b"), seed=0),
}


@pytest.mark.parametrize("loader", LOADERS)
def test_whoever_loads_a_checkpoint_of_ours_is_told_of_damage(loader: str, tmp_path: Path) -> None:
    folder = write(tmp_path, 5).folder
    load = LOADERS[loader]
    harmed = folder / ("tokenizer.json" if loader == "tokenizer" else "model.safetensors")
    whole = harmed.read_bytes()
    harmed.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(Damaged, match=rf"{harmed.name} is not what was written; it is not the model"):
        load(folder)
    harmed.write_bytes(whole)
    (folder / "checkpoint.json").unlink()  # as folders from elsewhere have none
    load(folder)


def test_raw_weights_are_verified_by_the_record_of_their_checkpoint(tmp_path: Path) -> None:
    folder = write(tmp_path, 5).folder
    refuse_damaged(folder / "raw")
    (folder / "model.safetensors").write_bytes(b"harmed")
    refuse_damaged(folder / "raw", "*.json")
    with pytest.raises(Damaged, match=r"model\.safetensors is not what was written"):
        refuse_damaged(folder / "raw")


@pytest.mark.parametrize("of", ["another step", "another run", "nothing"])
def test_a_model_beside_a_misplaced_record_is_not_loaded(of: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "a", 5).folder
    write_sealed(tmp_path / "a" / "specification.json", settings_as_json(SPECIFICATION), "specification.json")
    record = folder / "checkpoint.json"
    load_masked_language_model(folder)
    if of == "another step":
        shutil.copy(write(tmp_path / "a", 10).folder / "checkpoint.json", record)
    elif of == "another run":
        other = settings_as_json(replace(SPECIFICATION, seed=9))
        write_sealed(tmp_path / "a" / "specification.json", other, "specification.json")
    else:
        record.unlink()
    with pytest.raises(
        Damaged, match=r"is that of step 10|is of another run|checkpoint\.json cannot be read"
    ):
        load_masked_language_model(folder)
