"""Writes checkpoints while a run trains, complete or absent, and restores them.

They are restored into the run itself, which resumes, or into another run that starts from one.
"""

import io
import json
import pickle
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import isoloss
from isoloss.device import processor
from isoloss.errors import BadInput, IsolossError
from isoloss.files import (
    complete_folder,
    file_digest,
    remove_folder,
    remove_unfinished,
    sync_with_contents,
    writable,
)
from isoloss.pretraining.specification import PretrainingSpecification, first_difference, settings_as_json
from isoloss.pretraining.update_rule import UpdateRule
from isoloss.results.checkpoint import (
    MEASURED_FOLDER,
    RAW_FOLDER,
    RAW_WEIGHTS,
    RECORD_FILE,
    STEPS_FOLDER,
    TRAINING_STATE_DIGEST_FILE,
    TRAINING_STATE_FILE,
    WEIGHTS_FILE,
    Checkpoint,
    checkpoint_folders,
    read_checkpoint,
    seeds_of,
    state_name,
)
from isoloss.results.store import digests_in, json_digest, read_sealed, sealed


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

    If `model` holds averaged weights, `raw` is the model being trained, which goes into a subfolder that can
    be loaded like the folder itself. `earlier_seeds` are those of the runs that this one started from. The
    folder appears under its name once all of it is on disk, replacing any of the same step. Training state is
    kept in this checkpoint and the previous one, to resume from either. Needs twice the memory of the model
    and the rule. Raises IsolossError when the folder cannot be written.
    """
    final = run / STEPS_FOLDER / f"{step:06d}"
    readings = update_rule.readings()
    with complete_folder(final) as folder, writable(run):
        _write_model(folder, model, tokenizer)
        if raw is not None:
            _write_model(folder / RAW_FOLDER, raw, tokenizer)
        digests = digests_in(folder)
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
        text = json.dumps(sealed(record, RECORD_FILE), indent=2) + "\n"
        (folder / RECORD_FILE).write_text(text)
        _write_training_state(folder, update_rule, state_name(record))
        if final.exists():  # training resumed from an earlier step: it is damaged, or will be bit-identical
            sync_with_contents(folder)
            remove_folder(final)
    with writable(run):
        earlier = [checkpoint for checkpoint in checkpoint_folders(run) if int(checkpoint.name) < step]
        _drop_training_state(earlier[:-1])
    return Checkpoint(final, step, training_loss, digests[WEIGHTS_FILE], readings, digests.get(RAW_WEIGHTS))


def restore(
    checkpoint: Checkpoint,
    model: PreTrainedModel,
    update_rule: UpdateRule,
    raw: PreTrainedModel | None = None,
) -> None:
    """Restore `model`, `update_rule` and `raw` in place from what `write_checkpoint` wrote.

    Raises IsolossError if the training state was not written by isoloss for such a rule; executes no code.
    """
    safetensors.torch.load_model(model, checkpoint.folder / WEIGHTS_FILE)
    if raw is not None:
        safetensors.torch.load_model(raw, checkpoint.folder / RAW_WEIGHTS)
    path = checkpoint.folder / TRAINING_STATE_FILE
    try:
        update_rule.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except (pickle.UnpicklingError, RuntimeError, ValueError, KeyError, TypeError, EOFError) as error:
        raise IsolossError(
            f"{path} is damaged or foreign: it holds no training state of this run; delete the folder "
            f"{checkpoint.folder} and run again to go on from the checkpoint before"
        ) from error


def remove_leftovers(run: Path) -> None:
    """Remove incomplete writes of killed processes; only the run's process may call this."""
    for folder in (run, run / STEPS_FOLDER, *run.glob(f"{MEASURED_FOLDER}/*")):
        remove_unfinished(folder)


def remove_superseded_states(run: Path, step: int) -> None:
    """Remove the training states that a kill left, of which training at `step` needs that and the one before.

    Later checkpoints are damaged and do not count: the states before them are all there is to resume from.
    """
    reached = [folder for folder in checkpoint_folders(run) if int(folder.name) <= step]
    with writable(run):
        _drop_training_state(reached[:-2])


def _write_model(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write everything that `from_pretrained` needs into `folder`."""
    folder.mkdir(exist_ok=True)
    model.config.save_pretrained(folder)
    _save_tokenizer(tokenizer, folder)
    (folder / WEIGHTS_FILE).write_bytes(_weights(model))


def _weights(model: PreTrainedModel) -> bytes:
    """The state as safetensors, with tied tensors once, under their first name."""
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
    # Pickles of equal states may differ in their bytes after a resume: their digest is left out of the
    # record, so that resumed and uninterrupted runs have the same records.
    buffer = io.BytesIO()
    torch.save(update_rule.state_dict(), buffer)
    (folder / TRAINING_STATE_FILE).write_bytes(buffer.getvalue())
    digest = file_digest(folder / TRAINING_STATE_FILE)
    (folder / TRAINING_STATE_DIGEST_FILE).write_text(f"{digest} {json_digest([name, digest])}\n")


def software_versions() -> dict[str, Any]:
    """The versions and the machine on which a run's last bits may depend, besides its specification."""
    return {
        "isoloss": isoloss.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "safetensors": safetensors.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "threads": torch.get_num_threads(),
    }


FREE_TO_CHANGE = ("dropout", "attention")
"""An architecture's settings that its weights do not depend on."""


def put_starting_weights(
    model: PreTrainedModel, specification: PretrainingSpecification, start_from: Path | None
) -> tuple[int, ...]:
    """Load the checkpoint's weights into the new model if the specification starts from one.

    Returns the seeds of all runs in which these weights have been trained, in order. Raises BadInput if
    specification and folder do not match: one of them is missing, or the weights are others, or are from
    another language, another architecture (up to dropout and how attention is computed), or were trained on
    the sentences of the same seed; IsolossError if the checkpoint is damaged.
    """
    if specification.start_from is None:
        if start_from is not None:
            raise BadInput(
                f"the specification starts from fresh weights, not from {start_from}; put the checkpoint's "
                "digest into its start_from"
            )
        return ()
    if start_from is None:
        raise BadInput(
            f"the specification starts from the weights {specification.start_from[:12]}; hand over the "
            "checkpoint's folder as well"
        )
    checkpoint = read_checkpoint(start_from)
    if checkpoint.digest != specification.start_from:
        raise BadInput(
            f"{start_from} holds the weights {checkpoint.digest[:12]}, but the specification starts from "
            f"{specification.start_from[:12]}; hand over the folder it was made for"
        )
    record = read_sealed(start_from / RECORD_FILE, RECORD_FILE)
    before = record["specification"]
    _refuse_another_model(start_from, before, settings_as_json(specification))
    seeds = seeds_of(record)
    if specification.seed in seeds:
        raise BadInput(
            f"the weights in {start_from} were trained with seed {specification.seed} on the sentences that "
            "this run would draw; give it another seed"
        )
    safetensors.torch.load_model(model, start_from / WEIGHTS_FILE)
    return seeds


def _refuse_another_model(start_from: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    def what_counts(settings: dict[str, Any]) -> dict[str, Any]:
        shape = {k: v for k, v in settings["architecture"].items() if k not in FREE_TO_CHANGE}
        return {"language_digest": settings["language_digest"], "architecture": shape}

    if difference := first_difference(what_counts(before), what_counts(now)):
        raise BadInput(
            f"the run cannot start from {start_from}: its {difference}; start from a checkpoint of the same "
            "language and architecture"
        )
