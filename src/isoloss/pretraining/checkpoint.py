"""Checkpoints: folders that `from_pretrained` loads by itself, complete or absent, with digests."""

import io
import json
import os
import pickle
import platform
import shutil
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import isoloss
from isoloss.checked_files import json_digest, read_sealed, sealed
from isoloss.errors import BadInput, IsolossError
from isoloss.files import file_digest, remove_unfinished, sync_folder, writable
from isoloss.pretraining.specification import PretrainingSpecification, settings_as_json
from isoloss.pretraining.update_rule import UpdateRule

STEPS_FOLDER = "steps"
WEIGHTS_FILE = "model.safetensors"
SPECIFICATION_FILE = "specification.json"
MEASURED_FOLDER = "measured"
RAW_FOLDER = "raw"
"""Within a checkpoint of averaged weights: the weights that training goes on from, a model folder too."""
TRAINING_STATE_FILE = "training_state.pt"
TRAINING_STATE_DIGEST_FILE = "training_state.sha256"
RECORD_FILE = "checkpoint.json"
_RAW_WEIGHTS = f"{RAW_FOLDER}/{WEIGHTS_FILE}"
UNFINISHED, REPLACED = ".part", ".replaced"
"""How the names of folders end that are not yet, or no longer, checkpoints."""


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk.

    `training_loss` is the mean in nats over the steps since the checkpoint before, with dropout on;
    `digest` is the SHA-256 of the weights' file; `readings` are `UpdateRule.readings` at that step. Where the
    folder holds averaged weights, `raw_digest` is that of the file of the weights as they are.
    """

    folder: Path
    step: int
    training_loss: float
    digest: str
    readings: dict[str, float] = field(default_factory=dict)
    raw_digest: str | None = None


def write_checkpoint(
    run: Path,
    step: int,
    training_loss: float,
    specification: PretrainingSpecification,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    update_rule: UpdateRule,
    raw: PreTrainedModel | None = None,
    earlier_seeds: Sequence[int] = (),
) -> Checkpoint:
    """Write `run`/steps/`step`: weights, config, tokenizer, training state, and a record of them all.

    Where `model` holds averaged weights, `raw` is the model that is trained, which goes into a subfolder that
    can be loaded like the folder itself. `earlier_seeds` are those of the runs that this one started from.

    The folder appears under its name when all of it has reached the disk, in place of one of the same step.
    Training state is kept in this checkpoint and the one before, to resume from either. Needs twice the
    model's and the rule's memory. Raises IsolossError when the folder cannot be written.
    """
    final = run / STEPS_FOLDER / f"{step:06d}"
    temporary = final.with_name(f".{final.name}.{uuid.uuid4().hex}{UNFINISHED}")
    readings = update_rule.readings()
    with writable(run):
        try:
            _write_model(temporary, model, tokenizer)
            if raw is not None:
                _write_model(temporary / RAW_FOLDER, raw, tokenizer)
            files = _files(temporary)
            digests = {path.relative_to(temporary).as_posix(): file_digest(path) for path in files}
            record = {
                "step": step,
                "training_loss": training_loss,
                "readings": readings,
                "specification_digest": specification.digest,
                "specification": settings_as_json(specification),
                **({"earlier_seeds": list(earlier_seeds)} if earlier_seeds else {}),
                "versions": software_versions() | {"device": next(model.parameters()).device.type},
                "files": digests,
            }
            said = json.dumps(sealed(record, RECORD_FILE), indent=2) + "\n"
            (temporary / RECORD_FILE).write_text(said)
            _write_training_state(temporary, update_rule, _state_name(record))
            _put_in_place(temporary, final)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        earlier = [checkpoint for checkpoint in checkpoint_folders(run) if int(checkpoint.name) < step]
        _drop_training_state(earlier[:-1])
    return Checkpoint(final, step, training_loss, digests[WEIGHTS_FILE], readings, digests.get(_RAW_WEIGHTS))


def checkpoint_folders(run: Path) -> list[Path]:
    """The run's checkpoint folders by step, unverified."""
    folders = [folder for folder in (run / STEPS_FOLDER).glob("*") if folder.name.isdecimal()]
    return sorted(folders, key=lambda folder: int(folder.name))


def read_checkpoint(folder: Path) -> Checkpoint:
    """Verify every file's digest, training state too where it is kept, and read the record.

    Raises IsolossError naming the damaged or missing file.
    """
    try:
        return _verified(folder)
    except _DamagedError as error:
        raise IsolossError(f"{error}; delete the run's folder and run again to have it back") from error


def damage_to(folder: Path) -> str | None:
    """What is wrong with a checkpoint that isoloss wrote, or the one that raw weights are within.

    None where nothing is, and for any other folder.
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
            files.get(_RAW_WEIGHTS),
        )
        named = [(name, str(digest)) for name, digest in files.items()]
    except (BadInput, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder, RECORD_FILE, "cannot be read, or is not what was written") from error
    _refuse_misplaced(folder, record)
    for name, digest in named:
        _verify(folder, name, digest)
    # Only a run's two newest checkpoints keep their training state.
    if (folder / TRAINING_STATE_FILE).exists():
        _verify(folder, TRAINING_STATE_FILE, _state_digest(folder, _state_name(record)))
    return checkpoint


def _refuse_misplaced(folder: Path, record: dict[str, Any]) -> None:
    """Raise _DamagedError for another step's checkpoint, or another run's, where the run says which it is."""
    if record["step"] != int(folder.name if folder.name.isdecimal() else record["step"]):
        raise _damaged(folder, RECORD_FILE, f"is that of step {record['step']}")
    path = folder.parent.parent / SPECIFICATION_FILE
    if folder.parent.name == STEPS_FOLDER and path.exists():
        # A damaged specification tells nothing, and is told of by who reads it.
        with suppress(BadInput):
            if json_digest(read_sealed(path, SPECIFICATION_FILE)) != record.get("specification_digest"):
                raise _DamagedError(f"the checkpoint {folder} is of another run than {path} says")


def latest_checkpoint(run: Path) -> tuple[Checkpoint | None, tuple[str, ...]]:
    """The newest intact checkpoint that training can go on from, if any, and what is wrong with newer ones.

    Those passed over have a sentence each, naming the checkpoint and the damaged or missing file.
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


def restore(
    checkpoint: Checkpoint,
    model: PreTrainedModel,
    update_rule: UpdateRule,
    raw: PreTrainedModel | None = None,
) -> None:
    """Put what `write_checkpoint` wrote of `model`, `update_rule` and `raw` back into them, in place.

    Raises IsolossError where the training state is none that isoloss wrote for such a rule; it runs no code.
    """
    safetensors.torch.load_model(model, checkpoint.folder / WEIGHTS_FILE)
    if raw is not None:
        safetensors.torch.load_model(raw, checkpoint.folder / _RAW_WEIGHTS)
    path = checkpoint.folder / TRAINING_STATE_FILE
    try:
        update_rule.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except (pickle.UnpicklingError, RuntimeError, ValueError, KeyError, TypeError, EOFError) as error:
        raise IsolossError(
            f"{path} is damaged or foreign: it holds no training state of this run; delete the folder "
            f"{checkpoint.folder} and run again to go on from the checkpoint before"
        ) from error


def remove_leftovers(run: Path) -> None:
    """Remove what killed processes left half written; only the run's own process may call this."""
    with writable(run):
        for ending in (UNFINISHED, REPLACED):
            for path in (run / STEPS_FOLDER).glob(f".*{ending}"):
                shutil.rmtree(path)
        for folder in (run, *run.glob(f"{MEASURED_FOLDER}/*")):
            remove_unfinished(folder)
        _drop_training_state(checkpoint_folders(run)[:-2])


def _put_in_place(temporary: Path, final: Path) -> None:
    """Make the folder durable under its name, in place of one of that name.

    There is one only when training went on from before it: it is damaged, or will be equal to the bit.
    """
    for path in _files(temporary):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    for folder in (path for path in temporary.iterdir() if path.is_dir()):
        sync_folder(folder)
    sync_folder(temporary)
    if final.exists():
        aside = temporary.with_suffix(REPLACED)
        final.rename(aside)
        temporary.rename(final)
        shutil.rmtree(aside)
    else:
        temporary.rename(final)
    sync_folder(final.parent)


def _write_model(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> None:
    """Make `folder`, with all that `from_pretrained` asks for."""
    folder.mkdir(parents=True)
    model.config.save_pretrained(folder)
    _save_tokenizer(tokenizer, folder)
    (folder / WEIGHTS_FILE).write_bytes(_weights(model))


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _weights(model: PreTrainedModel) -> bytes:
    """The state as safetensors, tied tensors once, under the first of their names."""
    once: dict[int, tuple[str, torch.Tensor]] = {}
    for name, tensor in model.state_dict().items():
        once.setdefault(tensor.data_ptr(), (name, tensor))
    return safetensors.torch.save(dict(once.values()), metadata={"format": "pt"})


def _save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    try:
        tokenizer.save_pretrained(folder)
    except Exception as error:
        # `tokenizers` raises a bare Exception where Python would raise OSError.
        if "os error" in str(error):
            raise OSError(str(error)) from error
        raise


def _drop_training_state(folders: Sequence[Path]) -> None:
    for folder in folders:
        for name in (TRAINING_STATE_FILE, TRAINING_STATE_DIGEST_FILE):
            (folder / name).unlink(missing_ok=True)


def _write_training_state(folder: Path, update_rule: UpdateRule, name: str) -> None:
    # Pickles of equal states may differ in bytes after a resume: their digest stays out of the record,
    # so that resumed and undisturbed runs have the same records.
    buffer = io.BytesIO()
    torch.save(update_rule.state_dict(), buffer)
    (folder / TRAINING_STATE_FILE).write_bytes(buffer.getvalue())
    digest = file_digest(folder / TRAINING_STATE_FILE)
    (folder / TRAINING_STATE_DIGEST_FILE).write_text(f"{digest} {json_digest([name, digest])}\n")


def _state_name(record: dict[str, Any]) -> str:
    return f"{record.get('specification_digest')} {record['step']}"


def _state_digest(folder: Path, name: str) -> str:
    """What the training state's digest is said to be; older isoloss said no more than that."""
    try:
        digest, *seal = (folder / TRAINING_STATE_DIGEST_FILE).read_text().split()
    except (OSError, ValueError) as error:
        raise _damaged(folder, TRAINING_STATE_DIGEST_FILE, "cannot be read") from error
    if seal not in ([], [json_digest([name, digest])]):
        raise _damaged(folder, TRAINING_STATE_DIGEST_FILE, "is not what was written")
    return digest


def software_versions() -> dict[str, Any]:
    """What a run's last bits may depend on besides its specification."""
    return {
        "isoloss": isoloss.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "safetensors": safetensors.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "threads": torch.get_num_threads(),
    }


def _verify(folder: Path, name: str, digest: str) -> None:
    try:
        intact = file_digest(folder / name) == digest
    except OSError as error:
        raise _damaged(folder, name, f"cannot be read ({error.strerror})") from error
    if not intact:
        raise _damaged(folder, name, "is not what was written")


class _DamagedError(IsolossError):
    """What is wrong with a checkpoint, without what to do, which depends on who asks for it."""


def _damaged(folder: Path, name: str, how: str) -> _DamagedError:
    return _DamagedError(f"the checkpoint {folder} is damaged: {name} {how}")
