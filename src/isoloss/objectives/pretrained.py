"""Masked and next-token prediction for any Hugging Face language model, on its tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch
from isoloss.objectives.evaluation import causal_logits, masked_logits

IGNORED = -100
"""The label that `transformers` gives to what is not predicted."""


@dataclass(frozen=True)
class PretrainedMasked:
    """Predicts the tokens that have a label, as `DataCollatorForLanguageModeling` marks them.

    >>> ids = torch.tensor([[2, 9, 4, 3], [2, 8, 4, 3]])
    >>> labels = torch.tensor([[-100, -100, 7, -100], [-100, -100, 6, -100]])
    >>> batch = PretrainedMasked().batch({"input_ids": ids, "labels": labels})
    >>> batch.positions.tolist(), batch.targets.tolist()
    ([2, 2], [7, 6])
    """

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """See `masked_logits`."""
        return masked_logits(model, batch)

    def batch(self, inputs: Mapping[str, Any]) -> Batch:
        """A `DataLoader`'s batch; sentences without a label are dropped, even if that leaves none.

        Raises BadInput for padding on the left, inputs without labels, and token types other than 0.
        """
        ids, present, labels = _read(inputs)
        return _labelled(ids, present, labels != IGNORED, labels)


@dataclass(frozen=True)
class PretrainedCausal:
    """Predicts each token that has a label from those before it, except for the first of a sentence.

    >>> ids = torch.tensor([[5, 6, 7], [8, 9, 0]])
    >>> batch = PretrainedCausal().batch({"input_ids": ids, "attention_mask": ids > 0})
    >>> batch.rows.tolist(), batch.positions.tolist(), batch.targets.tolist()
    ([0, 0, 1], [0, 1, 0], [6, 7, 9])
    """

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """See `causal_logits`."""
        return causal_logits(model, batch)

    def batch(self, inputs: Mapping[str, Any]) -> Batch:
        """A `DataLoader`'s batch; without labels, every token is predicted. Drops sentences of one token.

        Raises BadInput for padding on the left, and token types other than 0.
        """
        ids, present, labels = _read({"labels": inputs["input_ids"], **inputs})
        following = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORED)
        predicted = (following != IGNORED) & torch.nn.functional.pad(present[:, 1:], (0, 1))
        return _labelled(ids, present, predicted, following)


def _read(
    inputs: Mapping[str, Any],
) -> tuple[Int[Tensor, "n S"], Bool[Tensor, "n S"], Int[Tensor, "n S"]]:
    """Token ids, which of them are not padding, and labels."""
    missing = [name for name in ("input_ids", "labels") if name not in inputs]
    if missing:
        raise BadInput(
            f"the batch has no {missing[0]}; make it with a collator that does, such as "
            "transformers.DataCollatorForLanguageModeling"
        )
    types = inputs.get("token_type_ids")
    if types is not None and bool(types.any()):
        raise BadInput("token types other than 0 are not measured; give single sentences, not pairs")
    ids, mask = inputs["input_ids"], inputs.get("attention_mask")
    present = torch.ones_like(ids).bool() if mask is None else mask.bool()
    if bool((present[:, 1:] & ~present[:, :-1]).any()):
        raise BadInput("sentences are padded on the left; set the tokenizer's padding_side to 'right'")
    return ids, present, inputs["labels"]


def _labelled(
    ids: Int[Tensor, "n S"],
    present: Bool[Tensor, "n S"],
    predicted: Bool[Tensor, "n S"],
    labels: Int[Tensor, "n S"],
) -> Batch:
    some = predicted.any(dim=1)
    rows, positions = predicted[some].nonzero(as_tuple=True)
    return Batch(ids[some], present[some], rows, positions, labels[some][rows, positions])


def choose_places(maskable: Sequence[int], share: float | None, generator: torch.Generator) -> list[int]:
    """Which of a sentence's maskable positions to mask: `share` of them, or a single one if that is None.

    Chooses exactly round(share T) of T positions (halves to even), at least one, uniformly without
    replacement. In ascending order.

    >>> choose_places(range(100, 120), 0.15, torch.Generator().manual_seed(0))
    [104, 105, 113]
    """
    count = 1 if share is None else max(1, round(share * len(maskable)))
    order = torch.randperm(len(maskable), generator=generator)[:count]
    return sorted(maskable[place] for place in order.tolist())


def masked_batch(
    sentences: Sequence[Sequence[int]], places: Sequence[Sequence[int]], mask: int, pad: int
) -> Batch:
    """Masks the tokens at each sentence's `places`, all at once, with the token `mask`, and predicts them.

    >>> batch = masked_batch([[5, 6, 7], [8]], [[0, 2], [0]], mask=1, pad=0)
    >>> batch.input_ids.tolist(), batch.targets.tolist()
    ([[1, 6, 1], [1, 0, 0]], [5, 7, 8])
    """
    ids, present = _rectangle(sentences, pad)
    rows = torch.tensor([row for row, chosen in enumerate(places) for _ in chosen], dtype=torch.int64)
    positions = torch.tensor([place for chosen in places for place in chosen], dtype=torch.int64)
    targets = ids[rows, positions]
    ids[rows, positions] = mask
    return Batch(ids, present, rows, positions, targets)


def next_token_batch(sentences: Sequence[Sequence[int]], pad: int) -> Batch:
    """Every token but a sentence's first is predicted from those before it.

    >>> batch = next_token_batch([[5, 6, 7], [8, 9]], pad=0)
    >>> batch.rows.tolist(), batch.positions.tolist(), batch.targets.tolist()
    ([0, 0, 1], [0, 1, 0], [6, 7, 9])
    """
    ids, present = _rectangle(sentences, pad)
    rows, positions = present[:, 1:].nonzero(as_tuple=True)
    return Batch(ids, present, rows, positions, ids[rows, positions + 1])


def _rectangle(
    sentences: Sequence[Sequence[int]], pad: int
) -> tuple[Int[Tensor, "n S"], Bool[Tensor, "n S"]]:
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    present = torch.arange(int(lengths.max())) < lengths[:, None]
    ids = torch.full(present.shape, pad)
    ids[present] = torch.tensor([token for sentence in sentences for token in sentence])
    return ids, present
