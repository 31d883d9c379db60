"""A run's first weights: those of another run's checkpoint, where its specification asks for it."""

from pathlib import Path
from typing import Any

import safetensors.torch
from transformers import PreTrainedModel

from isoloss.checked_files import read_sealed
from isoloss.errors import BadInput
from isoloss.pretraining.checkpoint import RECORD_FILE, WEIGHTS_FILE, read_checkpoint
from isoloss.pretraining.specification import (
    PretrainingSpecification,
    first_difference,
    settings_as_json,
)

FREE_TO_CHANGE = ("dropout", "attention")
"""An architecture's settings that its weights do not depend on."""


def put_starting_weights(
    model: PreTrainedModel, specification: PretrainingSpecification, start_from: Path | None
) -> tuple[int, ...]:
    """Put the checkpoint's weights into the fresh model when the specification starts from one.

    Returns the seeds of all runs that these weights have been trained in, the first run's first.

    Raises BadInput when specification and folder do not go together: one of them missing, other weights, or
    weights of another language, another architecture (but for dropout and how attention is computed), or
    a seed whose sentences they have been trained on; IsolossError when the checkpoint is damaged.
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
    # Checkpoints written before the seeds were kept name their own alone.
    seeds = (*record.get("earlier_seeds", ()), before["seed"])
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
