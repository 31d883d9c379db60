"""Checkpoints: folders that `from_pretrained` loads by itself, complete or absent, with digests.

Describes and verifies them; `checkpoint_writing` writes them.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from isoloss.errors import BadInput, IsolossError
from isoloss.files import file_digest
from isoloss.results.store import json_digest, read_sealed

STEPS_FOLDER = "steps"
WEIGHTS_FILE = "model.safetensors"
SPECIFICATION_FILE = "specification.json"
MEASURED_FOLDER = "measured"
RAW_FOLDER = "raw"
"""Within a checkpoint of averaged weights: the weights that training goes on from, a model folder too."""
TRAINING_STATE_FILE = "training_state.pt"
TRAINING_STATE_DIGEST_FILE = "training_state.sha256"
RECORD_FILE = "checkpoint.json"
RAW_WEIGHTS = f"{RAW_FOLDER}/{WEIGHTS_FILE}"


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk.

    `training_loss` is the mean in nats over the steps since the previous checkpoint, with dropout on;
    `digest` is the SHA-256 of the weights' file; `readings` are `UpdateRule.readings` at that step. If the
    folder holds averaged weights, `raw_digest` is that of the file of the raw weights.
    """

    folder: Path
    step: int
    training_loss: float
    digest: str
    readings: dict[str, float] = field(default_factory=dict)
    raw_digest: str | None = None


def checkpoint_folders(run: Path) -> list[Path]:
    """The run's checkpoint folders by step, unverified."""
    folders = [folder for folder in (run / STEPS_FOLDER).glob("*") if folder.name.isdecimal()]
    return sorted(folders, key=lambda folder: int(folder.name))


def read_checkpoint(folder: Path) -> Checkpoint:
    """Verify every file's digest, including the training state if it is kept, and read the record.

    Raises IsolossError naming the damaged or missing file.
    """
    try:
        return _verified(folder)
    except _DamagedError as error:
        raise IsolossError(f"{error}; delete the run's folder and run again to have it back") from error


def damage_to(folder: Path) -> str | None:
    """What is wrong with a checkpoint written by isoloss, or with the one that contains raw weights.

    None if it is intact, and for any other folder.
    """
    checkpoint = folder.parent if folder.name == RAW_FOLDER else folder
    if not (checkpoint / RECORD_FILE).is_file():
        return None
    try:
        _verified(checkpoint)
    except _DamagedError as error:
        return str(error)
    return None


def _verified(folder: Path) -> Checkpoint:
    try:
        record = read_sealed(folder / RECORD_FILE, RECORD_FILE)
        files: dict[str, str] = record["files"]
        checkpoint = Checkpoint(
            folder,
            record["step"],
            record["training_loss"],
            files[WEIGHTS_FILE],
            record["readings"],
            files.get(RAW_WEIGHTS),
        )
        named = [(name, str(digest)) for name, digest in files.items()]
    except (BadInput, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder, RECORD_FILE, "cannot be read, or is not what was written") from error
    _refuse_misplaced(folder, record)
    for name, digest in named:
        _verify(folder, name, digest)
    # Only a run's two newest checkpoints keep their training state.
    if (folder / TRAINING_STATE_FILE).exists():
        _verify(folder, TRAINING_STATE_FILE, _state_digest(folder, state_name(record)))
    return checkpoint


def _refuse_misplaced(folder: Path, record: dict[str, Any]) -> None:
    """Raise _DamagedError for a checkpoint of another step, or of another run if the run is recorded."""
    if record["step"] != int(folder.name if folder.name.isdecimal() else record["step"]):
        raise _damaged(folder, RECORD_FILE, f"is that of step {record['step']}")
    path = folder.parent.parent / SPECIFICATION_FILE
    if folder.parent.name == STEPS_FOLDER and path.exists():
        # A damaged specification identifies no run; the damage is reported when the file itself is read.
        with suppress(BadInput):
            if json_digest(read_sealed(path, SPECIFICATION_FILE)) != record.get("specification_digest"):
                raise _DamagedError(f"the checkpoint {folder} is of another run than {path} says")


def latest_checkpoint(run: Path) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """The newest intact checkpoint from which training can resume, if any, and what is wrong with newer ones.

    There is one sentence for each checkpoint skipped, naming it and the damaged or missing file.
    """
    damaged = []
    folders = checkpoint_folders(run)
    for folder in reversed(folders):
        try:
            checkpoint = _verified(folder)
        except _DamagedError as error:
            damaged.append(f"{error}; training goes on from before it and makes it again")
            continue
        if (folder / TRAINING_STATE_FILE).exists():
            return checkpoint, tuple(damaged)
        if folder in folders[-2:]:  # older ones keep none
            damaged.append(
                f"the checkpoint {folder} has no {TRAINING_STATE_FILE} to go on from; training goes on from "
                "before it and makes it again"
            )
    return None, tuple(damaged)


def state_name(record: dict[str, Any]) -> str:
    """The name bound into a training state's digest: its run and step."""
    return f"{record.get('specification_digest')} {record['step']}"


def _state_digest(folder: Path, name: str) -> str:
    """The recorded digest of the training state, itself verified unless written by an older isoloss."""
    try:
        digest, *seal = (folder / TRAINING_STATE_DIGEST_FILE).read_text().split()
    except (OSError, ValueError) as error:
        raise _damaged(folder, TRAINING_STATE_DIGEST_FILE, "cannot be read") from error
    if seal not in ([], [json_digest([name, digest])]):
        raise _damaged(folder, TRAINING_STATE_DIGEST_FILE, "is not what was written")
    return digest


def _verify(folder: Path, name: str, digest: str) -> None:
    try:
        intact = file_digest(folder / name) == digest
    except OSError as error:
        raise _damaged(folder, name, f"cannot be read ({error.strerror})") from error
    if not intact:
        raise _damaged(folder, name, "is not what was written")


class _DamagedError(IsolossError):
    """What is wrong with a checkpoint; what to do about it depends on the caller."""


def _damaged(folder: Path, name: str, how: str) -> _DamagedError:
    return _DamagedError(f"the checkpoint {folder} is damaged: {name} {how}")
