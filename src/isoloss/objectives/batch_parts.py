"""Some of a batch's sentences as a batch of their own."""

import itertools
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from isoloss.objectives.batch import Batch


def sentences_between(batch: Batch, start: int, stop: int) -> Batch:
    """Sentences start..stop-1, without positions that are padding in all of them; views where possible.

    >>> import torch
    >>> ids = torch.tensor([[1, 5, 2], [1, 2, 0]])
    >>> rows, positions = torch.tensor([0, 0, 1]), torch.tensor([1, 2, 1])
    >>> whole = Batch(ids, ids != 0, rows, positions, targets=torch.tensor([5, 6, 7]))
    >>> part = sentences_between(whole, 1, 2)
    >>> part.input_ids.tolist(), part.rows.tolist(), part.targets.tolist()
    ([[1, 2]], [0], [7])
    """
    part = batch.part(start, stop)
    present = part.attention_mask.any(0)
    width = int(present.nonzero().max()) + 1 if present.any() else 0
    return replace(part, input_ids=part.input_ids[:, :width], attention_mask=part.attention_mask[:, :width])


def split_sentences(batch: Batch, parts: int) -> list[Batch]:
    """The batch in `parts` consecutive parts of nearly equal numbers of sentences.

    >>> import torch
    >>> ids, every = torch.ones(5, 1, dtype=torch.int64), torch.arange(5)
    >>> [len(part) for part in split_sentences(Batch(ids, ids > 0, every, 0 * every, every), 2)]
    [2, 3]
    """
    edges = [len(batch) * i // parts for i in range(parts + 1)]
    return [sentences_between(batch, start, stop) for start, stop in itertools.pairwise(edges)]


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
