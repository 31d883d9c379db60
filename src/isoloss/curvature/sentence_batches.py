"""A batch in which the number of sentences tells them from positions."""

import torch

from isoloss.objectives.batch import Batch


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
