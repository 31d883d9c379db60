"""Whoever reads or loads a checkpoint is told of damage to it, and of what is misplaced."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from runs import SPECIFICATION, TRAINING_STATE, trained, write

from isoloss.command_line.inspect import holds_weights
from isoloss.errors import Damaged, IsolossError
from isoloss.files import file_digest
from isoloss.models.loading import load_any_language_model, load_masked_language_model, refuse_bare_encoder
from isoloss.models.model_files import stored_elements
from isoloss.models.tokenizer import load_tokenizer
from isoloss.pretraining.checkpoint_writing import restore
from isoloss.pretraining.specification import claim, settings_as_json
from isoloss.results.checkpoint import latest_checkpoint, read_checkpoint, refuse_damaged, state_name
from isoloss.results.run_folder import PLAN_FILE, read_run_folder
from isoloss.results.store import json_digest, read_sealed, write_sealed


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", TRAINING_STATE])
def test_a_damaged_newest_is_named_and_the_one_before_used(name: str, tmp_path: Path) -> None:
    before, newest = write(tmp_path, 5), write(tmp_path, 10)
    path = newest.folder / name
    whole = path.read_bytes()
    half = len(whole) // 2
    flipped = whole[:half] + bytes([whole[half] ^ 1]) + whole[half + 1 :]
    for content in (flipped, whole[:half], b"", None):
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        latest, (damaged,) = latest_checkpoint(tmp_path)
        assert latest == before
        assert str(newest.folder) in damaged
        assert name in damaged
        assert damaged.endswith("training goes on from before it and makes it again")


RECORD, STATE_DIGEST = "checkpoint.json", "training_state.sha256"
NO_RECORDS = (b"", b"{", b"[]", b"{}", b'{"step": 5, "training_loss": 1, "files": {}}', b"\0")


def another_digit(digest: bytes) -> bytes:
    return digest[:3] + (b"1" if digest[3:4] == b"0" else b"0") + digest[4:]


def another_loss(record: bytes) -> bytes:
    return record.replace(b'"training_loss": 0.5', b'"training_loss": 0.6')


@pytest.mark.parametrize(
    ("name", "harm", "said"),
    [
        *(
            (
                RECORD,
                lambda _, new=new: new,
                rf"{RECORD} .*; to have it again, delete .*000005 and the steps after it",
            )
            for new in NO_RECORDS
        ),
        (RECORD, another_loss, f"{RECORD} cannot be read, or is not what was written"),
        *((STATE_DIGEST, lambda _, new=new: new, "sha256 cannot be read") for new in (None, b"", b"\xff")),
        (STATE_DIGEST, another_digit, f"{STATE_DIGEST} is not what was written"),
    ],
)
def test_what_tells_damage_is_not_trusted_where_it_is_itself_damaged(
    name: str, harm: Callable[[bytes], bytes | None], said: str, tmp_path: Path
) -> None:
    path = write(tmp_path, 5).folder / name
    content = harm(path.read_bytes())
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(IsolossError, match=f"000005 is damaged: .*{said}"):
        read_checkpoint(path.parent)
    assert latest_checkpoint(tmp_path)[0] is None


@pytest.mark.parametrize("name", ["checkpoint.json", "training_state.sha256"])
def test_what_is_of_another_step_is_damage(name: str, tmp_path: Path) -> None:
    before, newest = write(tmp_path, 5), write(tmp_path, 10)
    shutil.copy(before.folder / name, newest.folder / name)
    latest, damaged = latest_checkpoint(tmp_path)
    assert latest == before
    assert name in damaged[0]


def test_another_runs_checkpoint_is_not_gone_on_from(tmp_path: Path) -> None:
    own = write(tmp_path / "own", 5)
    claim(tmp_path / "own", SPECIFICATION)
    assert latest_checkpoint(tmp_path / "own")[0] == own
    shutil.copytree(own.folder, tmp_path / "other" / "steps" / "000005")
    other = settings_as_json(replace(SPECIFICATION, seed=900))
    write_sealed(tmp_path / "other" / "specification.json", other, "specification.json")
    latest, damaged = latest_checkpoint(tmp_path / "other")
    assert latest is None
    assert "is of another run than" in damaged[0]


def test_who_asks_what_the_weights_are_is_told_of_damage(tmp_path: Path) -> None:
    """A cut file cannot be opened, and without one a folder would be told of from its configuration."""
    folder = write(tmp_path, 5).folder
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-8])
    with pytest.raises(Damaged, match=r"model\.safetensors is not what was written"):
        stored_elements(folder)
    weights.unlink()
    with pytest.raises(Damaged, match=r"model\.safetensors cannot be read"):
        holds_weights(str(folder))


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
    digest = file_digest(path)
    name = state_name(json.loads((checkpoint.folder / RECORD).read_text()))
    (checkpoint.folder / STATE_DIGEST).write_text(f"{digest} {json_digest([name, digest])}")
    with pytest.raises(IsolossError, match=r"training_state\.pt is damaged or foreign: it holds no training"):
        restore(read_checkpoint(checkpoint.folder), *trained(1))


def test_a_record_of_a_run_that_is_no_text_is_damage(tmp_path: Path) -> None:
    run, other = tmp_path / "0123456789abcdef", "f" * 64
    folder = write(run, 5).folder
    record = read_sealed(folder / RECORD, RECORD)
    write_sealed(folder / RECORD, record | {"specification_digest": 1}, RECORD)
    write_sealed(run / PLAN_FILE, {"digest": other}, PLAN_FILE)
    for reads in (read_checkpoint, refuse_damaged):
        with pytest.raises(Damaged):
            reads(folder)
    assert read_run_folder(run).damage == {"": "holds another run: rename it to ffffffffffffffff"}


LOADERS = {
    "masked": load_masked_language_model,
    "any": lambda folder: load_any_language_model(str(folder)),
    "head": lambda folder: refuse_bare_encoder(str(folder)),
    "tokenizer": lambda folder: load_tokenizer(str(folder)),
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
