"""Scores that are not finite are refused, and their sentence named."""

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch


class NonFiniteScores(BadInput):
    """A model's scores are NaN or infinite; `sentence` is the first such sentence's number, from 1."""

    def __init__(self, sentence: int, called: str) -> None:
        self.sentence = sentence
        super().__init__(
            f"the model's scores for {called} are not finite; its weights have diverged, or the precision "
            "is too low: measure an earlier checkpoint, or in float32"
        )


def refuse_non_finite(logits: Float[Tensor, "m v"], batch: Batch, first_sentence: int) -> None:
    """Raise NonFiniteScores naming the first sentence with a logit that is NaN or infinite, from 1."""
    # A sum with a number in it that is not finite is not finite, and takes one reading.
    sums = logits.sum(dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))
    bad = ~sums.isfinite()
    if bad.any():
        sentence = first_sentence + int(batch.rows[bad][0]) + 1
        raise NonFiniteScores(sentence, f"sentence {sentence}")
