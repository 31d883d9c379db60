"""Scores that are not finite are refused, and their sentence named."""

from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch


def refuse_non_finite(logits: Float[Tensor, "m v"], batch: Batch, first_sentence: int) -> None:
    """Raise BadInput naming the first sentence that has a logit that is NaN or infinite, counted from 1."""
    # A sum with a number in it that is not finite is not finite, and takes one reading.
    bad = ~logits.double().sum(dim=1).isfinite() if logits.itemsize < 4 else ~logits.sum(dim=1).isfinite()
    if bad.any():
        sentence = first_sentence + int(batch.rows[bad][0]) + 1
        raise BadInput(
            f"the model's scores for sentence {sentence} are not finite; its weights have diverged, or the "
            "precision is too low: measure an earlier checkpoint, or in float32"
        )
