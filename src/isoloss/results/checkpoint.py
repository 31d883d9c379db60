"""Checkpoints: folders that `from_pretrained` loads by itself, complete or absent, with digests.

Describes and verifies them; `isoloss.pretraining.checkpoint_writing` writes ours.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from isoloss.errors import Damaged
from isoloss.files import file_content, file_digest
from isoloss.results.store import json_digest, read_sealed

STEPS_FOLDER, MEASURED_FOLDER = "steps", "measured"
WEIGHTS_FILE = "model.safetensors"
SPECIFICATION_FILE, PLAN_FILE = "specification.json", "plan.json"
RAW_FOLDER = "raw"
"""Within a checkpoint of averaged weights: the weights that training goes on from, a model folder too."""
TRAINING_STATE_FILE = "training_state.pt"
TRAINING_STATE_DIGEST_FILE = "training_state.sha256"
RECORD_FILE = "checkpoint.json"
RAW_WEIGHTS = f"{RAW_FOLDER}/{WEIGHTS_FILE}"
ADAPTER_FILE = "adapter_config.json"
"""Of peft, in a folder of weights that are added to those of a base model."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk.

    `training_loss` is the mean in nats over the steps since the previous checkpoint, with dropout on, and
    that of the previous one if none was taken; `digest` is the SHA-256 of the weights' file; `readings` are
    `UpdateRule.readings` at that step. If the folder holds averaged weights, `raw_digest` is that of the file
    of the raw weights.
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

    Raises Damaged naming the damaged or missing file, or if the run's folder is named for another.
    """
    _refuse_misnamed_run(folder)
    try:
        return _verified(folder)
    except Damaged as error:
        raise Damaged(f"{error}; {to_have_again(folder)}, and run again") from error


def to_have_again(folder: Path) -> str:
    """What to delete of a run, so that it trains to that checkpoint again."""
    return f"to have it again, delete {folder} and the steps after it"


def seeds_of(record: dict[str, Any]) -> tuple[int, ...]:
    """The seeds of the runs that led to a checkpoint's weights, in order, by its record."""
    return (*record.get("earlier_seeds", ()), record["specification"]["seed"])


def refuse_damaged(folder: Path, *patterns: str) -> None:
    """Raise Damaged if a model's folder is a checkpoint of ours, and is not what was written, or where.

    With patterns, only the files that match one are verified. Folders from elsewhere have no digests.
    """
    folder = folder.resolve()
    checkpoint = folder.parent if folder.name == RAW_FOLDER else folder
    ours = checkpoint.parent.name == STEPS_FOLDER and (checkpoint.parents[1] / SPECIFICATION_FILE).exists()
    if not ours and not (checkpoint / RECORD_FILE).is_file():
        return
    _refuse_misnamed_run(checkpoint)
    try:
        _, files = _record(checkpoint)
        for name, digest in files.items():
            if not patterns or any(fnmatch(Path(name).name, pattern) for pattern in patterns):
                _verify(checkpoint, name, digest)
    except Damaged as error:
        raise Damaged(
            f"{error}; it is not the model that was trained: take another, or restore that file (without "
            f"{RECORD_FILE}, in a folder of its own, a model is taken as it is)"
        ) from error


def latest_checkpoint(run: Path) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """The newest intact checkpoint from which training can resume, if any, and what is wrong with newer ones.

    There is one sentence for each checkpoint skipped, naming it and the damaged or missing file.
    """
    damaged = []
    folders = checkpoint_folders(run)
    for folder in reversed(folders):
        try:
            checkpoint = _verified(folder)
        except Damaged as error:
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


def specification_digests(run: Path) -> Iterator[str | None]:
    """Of each of the run's checkpoints whose record can be read, the digest of its specification."""
    for checkpoint in checkpoint_folders(run):
        with suppress(Damaged):
            digest = read_sealed(checkpoint / RECORD_FILE, RECORD_FILE).get("specification_digest")
            yield digest if isinstance(digest, str) else None


def planned_digest(run: Path) -> str | None:
    """The digest of the specification that a run's folder is planned to hold; None if that is not known."""
    digest = _intact(run / PLAN_FILE).get("digest")
    return None if digest is None else str(digest)


def origin_digest(run_digest: str, step: int) -> str:
    """What a planned specification has as `start_from`: it names a run and step before there are weights."""
    return hashlib.sha256(f"{run_digest} at step {step}".encode()).hexdigest()


def contradicts_plan(run: Path, plan: dict[str, Any], specification: dict[str, Any]) -> bool:
    """Whether a specification is of another run than the plan in the run's folder is of.

    Not said of a run that goes on from one which is not beside it, and of a language that is made only when
    the run begins: how these are to be called in the specification is not known before.
    """
    language, before = plan.get("language"), plan.get("continues")
    known = isinstance(language, dict) and language.get("plan", "unknown") is None
    if "digest" not in plan or not known or not isinstance(before, dict | None):
        return False
    start_from = None
    if before is not None:
        origin = planned_digest(run.resolve().parent / str(before.get("run")))
        if origin is None:
            return False
        start_from = origin_digest(origin, before.get("step", 0))
    return json_digest(specification | {"start_from": start_from}) != str(plan["digest"])


def may_be_named(run: Path, digest: str) -> bool:
    """Whether a run of that digest may be in this folder: a copy may have any name but another run's."""
    return not re.fullmatch("[0-9a-f]{16}", run.name) or digest.startswith(run.name)


def holds_another(run: Path) -> str:
    """What is to be said of a run's folder, after its path, if it holds another run than it is named for.

    Empty if it does not: if only its plan is another's, its specification, a checkpoint or a measurement is
    still its own.
    """
    planned = planned_digest(run)
    if planned is None or may_be_named(run, planned):
        return ""
    found = (_digest_in(run / SPECIFICATION_FILE), *specification_digests(run))
    if any(may_be_named(run, digest) for digest in found if digest) or _has_own_measurement(run):
        return ""
    return f"holds another run: rename it to {planned[:16]}"


def _has_own_measurement(run: Path) -> bool:
    """A run that goes on from another has no other digest of its plan than in what was measured of it."""
    from isoloss.results.record import read_records  # numpy takes a moment, and this is seldom asked

    for path in sorted(run.glob(f"{MEASURED_FOLDER}/*/*.jsonl")):
        with suppress(Damaged):
            if read_records(path, f"{run.name}/{path.parent.name}/{path.stem}"):
                return True
    return False


def _refuse_misnamed_run(checkpoint: Path) -> None:
    run = checkpoint.parent.parent
    if checkpoint.parent.name == STEPS_FOLDER and (what := holds_another(run)):
        raise Damaged(f"{run} {what}")


def _verified(folder: Path) -> Checkpoint:
    record, files = _record(folder)
    for name, digest in files.items():
        _verify(folder, name, digest)
    # Only a run's two newest checkpoints keep their training state.
    if (folder / TRAINING_STATE_FILE).exists():
        _verify(folder, TRAINING_STATE_FILE, _state_digest(folder, state_name(record)))
    return Checkpoint(
        folder,
        record["step"],
        record["training_loss"],
        files[WEIGHTS_FILE],
        record["readings"],
        files.get(RAW_WEIGHTS),
    )


def _record(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """A checkpoint's record, of this step and run, and the digests of its files."""
    try:
        record = read_sealed(folder / RECORD_FILE, RECORD_FILE)
        _ = record["step"], record["training_loss"], record["readings"]
        files = {name: str(digest) for name, digest in record["files"].items()}
        step = int(folder.name) if folder.name.isdecimal() else record["step"]
        _ = files[WEIGHTS_FILE]
    except (Damaged, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder, RECORD_FILE, "cannot be read, or is not what was written") from error
    if record["step"] != step:
        raise _damaged(folder, RECORD_FILE, f"is that of step {record['step']}")
    if folder.parent.name == STEPS_FOLDER:
        _refuse_another_runs(folder, record.get("specification_digest"))
    return record, files


def _refuse_another_runs(folder: Path, digest: str | None) -> None:
    """The run is that of the plan if anything is of that, and else that of the specification.

    A run that goes on from another has a plan of another digest than its specification.
    """
    run = folder.parent.parent
    planned, path = planned_digest(run), run / SPECIFICATION_FILE
    right = _digest_in(path)
    theirs = planned is not None and planned != right and may_be_named(run, planned)
    if theirs and (
        planned in specification_digests(run)
        or (right == digest and contradicts_plan(run, _intact(run / PLAN_FILE), _intact(path)))
    ):
        right, path = planned, run / PLAN_FILE
    if right not in (None, digest):
        raise Damaged(f"the checkpoint {folder} is of another run than {path} says")


def _digest_in(specification: Path) -> str | None:
    """None for a missing or damaged one, which identifies no run and is reported where it is read itself."""
    content = _intact(specification)
    return json_digest(content) if content else None


def _intact(path: Path) -> dict[str, Any]:
    """A run's plan or specification; empty for a missing or damaged one."""
    try:
        content: dict[str, Any] = read_sealed(path, path.name)
    except Damaged:
        return {}
    return content


def _state_digest(folder: Path, name: str) -> str:
    """The recorded digest of the training state, itself verified."""
    try:
        digest, seal = file_content(folder / TRAINING_STATE_DIGEST_FILE).decode().split()
    except (OSError, ValueError) as error:
        reason = f" ({error.strerror})" if isinstance(error, OSError) else ""
        raise _damaged(folder, TRAINING_STATE_DIGEST_FILE, f"cannot be read{reason}") from error
    if seal != json_digest([name, digest]):
        raise _damaged(folder, TRAINING_STATE_DIGEST_FILE, "is not what was written")
    return digest


def _verify(folder: Path, name: str, digest: str) -> None:
    try:
        intact = file_digest(folder / name) == digest
    except OSError as error:
        raise _damaged(folder, name, f"cannot be read ({error.strerror})") from error
    if not intact:
        raise _damaged(folder, name, "is not what was written")


def _damaged(folder: Path, name: str, how: str) -> Damaged:
    return Damaged(f"the checkpoint {folder} is damaged: {name} {how}")
