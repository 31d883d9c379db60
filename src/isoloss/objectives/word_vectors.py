"""The features of a whole sentence that linear heads read: its words' contextual vectors (paper A.4)."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from isoloss.objectives.tokens import PAD, tokens_of_words


def word_vectors(model: nn.Module, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n D"]:
    """The contextual vectors of all words of each unmasked sentence, one after the other; D = T d.

    The vectors are the last hidden states of the `transformers` model's backbone, on the model's device and
    differentiable. [CLS], which pre-training does not train, is left out (paper, "Linear probe"); positions
    after a sentence's end are zero.
    """
    backbone = getattr(model, "base_model", model)
    tokens = tokens_of_words(ids).to(next(model.parameters()).device)
    present = tokens != PAD
    mask = None if bool(present.all()) else present
    vectors = backbone(input_ids=tokens, attention_mask=mask).last_hidden_state
    whole: Tensor = (vectors * present[..., None])[:, 1:].flatten(1)
    return whole
