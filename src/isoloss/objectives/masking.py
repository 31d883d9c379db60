"""Batches of token sentences for masked and for next-token prediction."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from isoloss.objectives.batch import Batch


def choose_places(maskable: Sequence[int], share: float | None, generator: torch.Generator) -> list[int]:
    """Which of a sentence's maskable places to mask: `share` of them, or where that is None a single one.

    Exactly round(share T) of T places (halves to even), at least one, without replacement; every place is
    as likely. Ascending.

    >>> choose_places(range(100, 120), 0.15, torch.Generator().manual_seed(0))
    [104, 105, 113]
    """
    count = 1 if share is None else max(1, round(share * len(maskable)))
    order = torch.randperm(len(maskable), generator=generator)[:count]
    return sorted(maskable[place] for place in order.tolist())


def masked_batch(
    sentences: Sequence[Sequence[int]], places: Sequence[Sequence[int]], mask: int, pad: int
) -> Batch:
    """The tokens at each sentence's `places` hidden behind the token `mask`, all at once, and predicted.

    >>> batch = masked_batch([[5, 6, 7], [8]], [[0, 2], [0]], mask=1, pad=0)
    >>> batch.input_ids.tolist(), batch.targets.tolist()
    ([[1, 6, 1], [1, 0, 0]], [5, 7, 8])
    """
    ids, present = _rectangle(sentences, pad)
    rows = torch.tensor([row for row, own in enumerate(places) for _ in own], dtype=torch.int64)
    positions = torch.tensor([place for own in places for place in own], dtype=torch.int64)
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
