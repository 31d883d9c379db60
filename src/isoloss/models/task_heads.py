"""Models with the head of a task, with which they were trained: its kind, loading, and its classes."""

from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from isoloss.errors import BadInput
from isoloss.models.adapters import base_of_adapter, refuse_adapter_of_head
from isoloss.models.folder_configuration import read_config
from isoloss.models.hub import quiet, refusing
from isoloss.models.loading import bounded, refuse_other_weights, with_experts_apart
from isoloss.results.checkpoint import refuse_damaged

Head = Literal["text classes", "text labels", "token classes", "target text"]
"""What the head predicts: a class of the text, any number of them at once, classes of its tokens, or the text
that follows from it."""

_CLASSES: dict[Head, Any] = {
    "text classes": AutoModelForSequenceClassification,
    "text labels": AutoModelForSequenceClassification,
    "token classes": AutoModelForTokenClassification,
    "target text": AutoModelForSeq2SeqLM,
}
_ENDINGS: dict[str, Head] = {
    "ForSequenceClassification": "text classes",
    "ForTokenClassification": "token classes",
}


def head_of(name: str) -> Head | None:
    """The kind of a model's head, by its configuration; None for a language model, and for any other head.

    An adapter is one of a language model: raises BadInput if it says that it is of another.
    """
    if base_of_adapter(name) is not None:
        refuse_adapter_of_head(name)
        return None
    config = read_config(name)
    for architecture in config.architectures or ():
        for ending, head in _ENDINGS.items():
            if architecture.endswith(ending):
                several = getattr(config, "problem_type", None) == "multi_label_classification"
                return "text labels" if several and head == "text classes" else head
        if architecture.endswith(("QuestionAnswering", "ForCausalLM", "ForMaskedLM", "LMHeadModel")):
            return None
    return "target text" if getattr(config, "is_encoder_decoder", False) else None


def load_with_head(name: str, head: Head, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A model in evaluation mode on the CPU, with the head that its folder holds.

    Raises BadInput if there is none, if it lacks weights, if it predicts a number, or if it pads no texts;
    Damaged if it is a checkpoint of ours that is not what was written.
    """
    config = read_config(name)
    _refuse_other_losses(name, config, head)
    if Path(name).is_dir():
        refuse_damaged(Path(name))
    with refusing("model", name), quiet(), bounded(name):
        model, found = class_of_head(head).from_pretrained(
            name,
            config=config,
            local_files_only=Path(name).is_dir(),
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, naming them
        )
        refuse_other_weights(name, model, found)
    _tell_padding(name, model.config, head)
    with_experts_apart(model)
    loaded: PreTrainedModel = model.eval()
    return loaded


def class_of_head(head: Head) -> Any:
    """The class of `transformers` that builds a model with such a head from a configuration, or loads one."""
    return _CLASSES[head]


def configuration_with_head(name: str, head: Head) -> Any:
    """The configuration of a model, to build it of without weights; raises as `load_with_head` does."""
    config = read_config(name)
    _refuse_other_losses(name, config, head)
    _tell_padding(name, config, head)
    return config


def _tell_padding(name: str, config: Any, head: Head) -> None:
    """Models that read a text's last token recognise it by what fills the text up."""
    text = config.get_text_config()
    if head not in ("text classes", "text labels") or getattr(text, "pad_token_id", None) is not None:
        return
    end = getattr(text, "eos_token_id", None)
    if not isinstance(end, int):
        raise BadInput(f"{name} says nothing of padding; add pad_token_id to its config.json")
    config.pad_token_id = text.pad_token_id = end


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
