"""Some sentences of a batch as a batch of their own."""

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from isoloss.objectives.batch import Batch


def sentences_of(batch: Batch, sentences: Int[Tensor, " k"]) -> Batch:
    """The sentences with these ascending numbers, without positions that follow all their words.

    >>> ids = torch.tensor([[5, 6], [7, 0]])
    >>> first = torch.zeros(2, dtype=torch.long)
    >>> alone = sentences_of(Batch(ids, ids > 0, torch.tensor([0, 1]), first, first), torch.tensor([1]))
    >>> alone.input_ids.tolist(), alone.rows.tolist()
    ([[7]], [0])
    """
    number = torch.full((len(batch),), -1, device=batch.rows.device)
    number[sentences] = torch.arange(len(sentences), device=batch.rows.device)
    kept = number[batch.rows] >= 0
    mask = batch.attention_mask[sentences]
    width = int(mask.any(0).nonzero().max()) + 1
    return replace(
        batch,
        input_ids=batch.input_ids[sentences, :width],
        attention_mask=mask[:, :width],
        rows=number[batch.rows[kept]],
        positions=batch.positions[kept],
        targets=batch.targets[kept],
    )


def last_sentence_twice(batch: Batch) -> Batch:
    """The batch with a copy of its last sentence, and of that one's predictions, at the end."""
    own = batch.rows == len(batch) - 1
    return Batch(
        torch.cat([batch.input_ids, batch.input_ids[-1:]]),
        torch.cat([batch.attention_mask, batch.attention_mask[-1:]]),
        torch.cat([batch.rows, batch.rows[own] + 1]),
        torch.cat([batch.positions, batch.positions[own]]),
        torch.cat([batch.targets, batch.targets[own]]),
    )
