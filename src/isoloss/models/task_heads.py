"""Models with the head of a task, with which they were trained: loading them, and their classes."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from isoloss.errors import BadInput
from isoloss.models.adapters import (
    add_adapter,
    base_of_adapter,
    number_of_classes,
    stored_in_adapter,
)
from isoloss.models.folder_configuration import Head, read_config
from isoloss.models.hub import quiet, refusing
from isoloss.models.loading import bounded, refuse_other_weights, with_experts_apart
from isoloss.results.checkpoint import refuse_damaged

_CLASSES: dict[Head, Any] = {
    "text classes": AutoModelForSequenceClassification,
    "text labels": AutoModelForSequenceClassification,
    "token classes": AutoModelForTokenClassification,
    "target text": AutoModelForSeq2SeqLM,
}
NO_TOKEN = -1
"""A number that no token has."""


def load_with_head(name: str, head: Head, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A model in evaluation mode on the CPU, with the head that its folder holds.

    Of an adapter, its base model with the head and the weights that it stores; they alone require gradients.
    Raises BadInput if there is none, if it lacks weights, or if it predicts a number; Damaged if it is a
    checkpoint of ours that is not what was written.
    """
    config = _configuration(name, head)
    base = base_of_adapter(name)
    folder = base or name
    if Path(folder).is_dir():
        refuse_damaged(Path(folder))
    with refusing("model", folder), quiet(), bounded(folder):
        model, found = class_of_head(head).from_pretrained(
            folder,
            config=config,
            local_files_only=Path(folder).is_dir(),
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, naming them
        )
        if base is not None:
            _leave_to_adapter(name, base, found)
        refuse_other_weights(folder, model, found)
    if base is not None:
        add_adapter(model, name)
    _tell_padding(model.config, head)
    with_experts_apart(model)
    loaded: PreTrainedModel = model.eval()
    return loaded


def _leave_to_adapter(name: str, base: str, found: dict[str, Any]) -> None:
    """Take what an adapter stores from what its base model lacks. Raises BadInput if it lacks more."""
    stored = stored_in_adapter(name)
    found["mismatched_keys"] = {each for each in found["mismatched_keys"] if each[0] not in stored}
    found["missing_keys"] = {each for each in found["missing_keys"] if each not in stored}
    if lacking := found["missing_keys"]:
        raise BadInput(
            f"neither the adapter {name} nor its base model {base} has {min(lacking)}, which its head reads; "
            "save what merge_and_unload returns of the trained model, and name that folder"
        )


def class_of_head(head: Head) -> Any:
    """The class of `transformers` that builds a model with such a head from a configuration, or loads one."""
    return _CLASSES[head]


def configuration_with_head(name: str, head: Head) -> Any:
    """The configuration of a model, to build it of without weights; raises as `load_with_head` does.

    Of an adapter, its base model's, with as many classes as the head that it stores.
    """
    config = _configuration(name, head)
    _tell_padding(config, head)
    return config


def _configuration(name: str, head: Head) -> Any:
    """As it is for loading, when what is called padding would be kept from gradients."""
    base = base_of_adapter(name)
    config = read_config(base or name)
    if base is not None and head != "target text":
        config.num_labels = number_of_classes(stored_in_adapter(name)) or config.num_labels
    _refuse_other_losses(name, config, head)
    return config


def _tell_padding(config: Any, head: Head) -> None:
    """Models that read a text's last token recognise it by what fills the text up.

    Where nothing is named, no token is that, since any may be the text's own last: then only texts of one
    length can be passed together, as `kept_apart` finds.
    """
    text = config.get_text_config()
    if head in ("text classes", "text labels") and getattr(text, "pad_token_id", None) is None:
        config.pad_token_id = text.pad_token_id = NO_TOKEN


def _refuse_other_losses(name: str, config: Any, head: Head) -> None:
    if head == "target text":
        return
    regression = getattr(config, "problem_type", None) == "regression"
    if regression or (int(getattr(config, "num_labels", 2)) < 2 and head != "text labels"):
        raise BadInput(f"{name} predicts a number, not a class, and has no distribution to measure")


def first_of_decoder(model: PreTrainedModel) -> int | None:
    """The token that the decoder reads first; None if it reads the target's last token first, as mBART does.

    Raises BadInput if the model's configuration does not say.
    """
    shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
    if shift is not None:
        probe = torch.tensor([[3, 4, 5]], device=next(model.parameters()).device)
        with suppress(AttributeError, TypeError, ValueError):  # as most models say that they do not know
            first = int(shift(probe)[0, 0])
            return None if first == 5 else first
    start = getattr(model.config, "decoder_start_token_id", None)
    if not isinstance(start, int):
        raise BadInput(
            f"{model.name_or_path} does not say what its decoder reads first; add decoder_start_token_id to "
            "its config.json"
        )
    return start


def class_numbers(config: Any) -> dict[str, int]:
    """The number of each class of a model's configuration, by its name and by the number itself."""
    named = {str(name): int(number) for name, number in (config.label2id or {}).items()}
    return {str(number): number for number in range(config.num_labels)} | named
