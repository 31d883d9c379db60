"""Models with the head of a task, with which they were trained: its kind, classes, and what it predicts."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
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
    task_of_adapter,
)
from isoloss.models.folder_configuration import read_config
from isoloss.models.hub import quiet, refusing
from isoloss.models.loading import bounded, refuse_other_weights, with_experts_apart
from isoloss.objectives.batch import Batch
from isoloss.objectives.evaluation import logits_at_predictions, masked_logits
from isoloss.objectives.pretrained import IGNORED, rectangle
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
NO_TOKEN = -1
"""A number that no token has."""
_OF_ADAPTERS = {
    "SEQ_CLS": "ForSequenceClassification",
    "TOKEN_CLS": "ForTokenClassification",
    "CAUSAL_LM": "ForCausalLM",
}
"""How the classes of models end for which an adapter is, by peft's name of its task."""


def head_of(name: str) -> Head | None:
    """The kind of a model's head, by its configuration; None for a language model, and for any other head.

    Of an adapter, that of its task; if it names none, or is of an encoder and a decoder, its base model's.
    Raises BadInput for an adapter that answers questions.
    """
    base = base_of_adapter(name)
    config = read_config(base or name)
    ending_of_task = None if base is None else _OF_ADAPTERS.get(task_of_adapter(name) or "")
    for architecture in [ending_of_task] if ending_of_task else config.architectures or ():
        for ending, head in _ENDINGS.items():
            if architecture.endswith(ending):
                several = getattr(config, "problem_type", None) == "multi_label_classification"
                return "text labels" if several and head == "text classes" else head
        if architecture.endswith(("QuestionAnswering", "ForCausalLM", "ForMaskedLM", "LMHeadModel")):
            return None
    return "target text" if getattr(config, "is_encoder_decoder", False) else None


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


@dataclass(frozen=True)
class SequenceClass:
    """One prediction per text: its class, among those of a model for sequence classification."""

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """The scores of the model's classes. Raises BadInput for a model that gives others."""
        return _scores_of_texts(model, batch)


@dataclass(frozen=True)
class SequenceLabels:
    """A prediction for each class of a model whose texts have several at once: whether it is one of them."""

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m 2"]:
        """The scores of no, which are 0, and of yes, as a sigmoid has them."""
        yes = _scores_of_texts(model, batch)[batch.rows, batch.positions]
        return torch.stack([torch.zeros_like(yes), yes], dim=1)


def _scores_of_texts(model: nn.Module, batch: Batch) -> Float[Tensor, "n v"]:
    types = {} if batch.token_types is None else {"token_type_ids": batch.token_types}
    found = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask.long(), **types)
    logits: Tensor | None = getattr(found, "logits", None)
    if logits is None or logits.ndim != 2 or len(logits) != len(batch):
        raise BadInput(f"{type(model).__name__} gives no scores of a text's classes; take another model")
    return logits


@dataclass(frozen=True)
class TokenClass:
    """The class of each labelled token, among those of a model for token classification."""

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """The scores of the model's classes at each labelled token."""
        return masked_logits(model, batch)


@dataclass(frozen=True)
class TargetToken:
    """Each token of the target, from the source and the target's tokens before it."""

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """The scores of the vocabulary at each position of the decoder."""
        if batch.decoder_ids is None:
            raise BadInput("the batch has no tokens for a decoder; make it with target_batch")
        mask = batch.attention_mask.long()
        return logits_at_predictions(
            model, batch, attention_mask=mask, decoder_input_ids=batch.decoder_ids, use_cache=False
        )


def class_batch(texts: Sequence[Sequence[int]], labels: Sequence[int], pad: int) -> Batch:
    """A text and its class in each row.

    >>> class_batch([[5, 6], [7]], [1, 0], pad=0).targets.tolist()
    [1, 0]
    """
    ids, present = rectangle(texts, pad)
    rows = torch.arange(len(texts))
    return Batch(ids, present, rows, torch.zeros_like(rows), torch.tensor(labels))


def labels_batch(texts: Sequence[Sequence[int]], labels: Sequence[Sequence[int]], pad: int) -> Batch:
    """A text in each row, and for every class whether it is one of the text's, 1, or not, 0.

    >>> batch = labels_batch([[5, 6], [7]], [[1, 0, 1], [0, 0, 0]], pad=0)
    >>> batch.rows.tolist(), batch.positions.tolist(), batch.targets.tolist()
    ([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], [1, 0, 1, 0, 0, 0])
    """
    ids, present = rectangle(texts, pad)
    given = torch.tensor(labels)
    rows, classes = torch.ones_like(given).nonzero(as_tuple=True)
    return Batch(ids, present, rows, classes, given.flatten())


def token_class_batch(texts: Sequence[Sequence[int]], labels: Sequence[Sequence[int]], pad: int) -> Batch:
    """A class for each token; `IGNORED` for one without.

    >>> batch = token_class_batch([[5, 6], [7]], [[-100, 2], [0]], pad=0)
    >>> batch.rows.tolist(), batch.positions.tolist(), batch.targets.tolist()
    ([0, 1], [1, 0], [2, 0])
    """
    ids, present = rectangle(texts, pad)
    given, _ = rectangle(labels, IGNORED, ids.shape[1])
    rows, positions = (given != IGNORED).nonzero(as_tuple=True)
    return Batch(ids, present, rows, positions, given[rows, positions])


def target_batch(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], start: int | None, pad: int
) -> Batch:
    """The decoder reads `start` and all of the target but its last token; None: the last token is the first.

    Sources and targets are filled up to one width, so that an array tells its sentences from its positions.

    >>> batch = target_batch([[5, 6, 9]], [[7, 8]], start=1, pad=0)
    >>> batch.decoder_ids.tolist(), batch.positions.tolist(), batch.targets.tolist()
    ([[1, 7, 0]], [0, 1], [7, 8])
    """
    width = max(map(len, (*sources, *targets)))
    ids, present = rectangle(sources, pad, width)
    read = [[each[-1] if start is None else start, *each[:-1]] for each in targets]
    decoder_ids, of_target = rectangle(read, pad, width)
    rows, positions = of_target.nonzero(as_tuple=True)
    following, _ = rectangle(targets, pad, width)
    return Batch(ids, present, rows, positions, following[rows, positions], decoder_ids=decoder_ids)
