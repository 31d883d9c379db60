"""Some of a batch's sentences as a batch of their own."""

import itertools
from dataclasses import replace

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
