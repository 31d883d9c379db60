"""The scores of masked words, read off any masked language model."""

from jaxtyping import Float
from torch import Tensor, nn

from isoloss.objectives.batch import Batch
from isoloss.objectives.logits_at_predictions import logits_at_predictions


def masked_logits(model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
    """Scores of the model's v tokens for each of the m predictions; see `logits_at_predictions`.

    The model derives positions and segments as it does by itself. The attention mask is left out when nothing
    is padded.
    """
    attention_mask = None if bool(batch.attention_mask.all()) else batch.attention_mask
    return logits_at_predictions(model, batch, attention_mask=attention_mask)
