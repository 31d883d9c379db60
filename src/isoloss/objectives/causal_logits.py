"""The scores of next words, read off any causal language model."""

from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch
from isoloss.objectives.logits_at_predictions import logits_at_predictions


def causal_logits(model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
    """Scores of the model's v tokens for what follows each of the m positions; see `logits_at_predictions`.

    A word sees what is before it only, so that padding which follows a sentence needs no attention mask; the
    mask is passed where padding comes before. No keys and values are kept for later.

    Raises BadInput for a model that reads both ways, which would see what it is to predict.
    """
    if type(model).__name__.endswith("ForMaskedLM"):
        raise BadInput(
            f"{type(model).__name__} reads sentences both ways and would see the next word; take a causal "
            "model, such as GPT2Transformer builds"
        )
    arguments: dict[str, Any] = {}
    mask = batch.attention_mask
    if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        arguments["attention_mask"] = mask
    if hasattr(getattr(model, "config", None), "use_cache"):
        arguments["use_cache"] = False
    return logits_at_predictions(model, batch, **arguments)
