"""Fixed sentences in blocks, which are the clusters of an error bar."""

from collections.abc import Sequence

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, split_sentences

BLOCKS = 64
"""Clusters that are enough for an error bar: its own relative error is then 1 / √(2 · 63), about 9 %."""
LARGEST = 8
"""Sentences that a block has at most, so that differentiating it twice takes little memory."""


def sentence_blocks(batches: Sequence[Batch], fewest: int = 2, largest: int = LARGEST) -> list[Batch]:
    """All sentences of the batches, in order, in `BLOCKS` blocks or more, as equal as the batches allow.

    Fewer sentences than `BLOCKS` are a block each; none has more than `largest`, or reaches from one batch
    into the next.
    Raises BadInput for fewer than `fewest` sentences.
    """
    n = sum(map(len, batches))
    if n < fewest:
        raise BadInput(f"{n} sentences have no standard error; measure on at least {fewest}")
    size = max(1, min(largest, n // BLOCKS))
    blocks = []
    for batch in batches:
        blocks += split_sentences(batch, -(-len(batch) // size))
    return blocks
