"""Objectives of models with the head of a task, and their batches: classes of texts or words, and targets."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch
from isoloss.objectives.predicted_logits import logits_at_predictions, masked_logits
from isoloss.objectives.pretrained import IGNORED, rectangle


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
