"""Maps a language's words to a model's tokens: three special tokens, then the words in order."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from isoloss.errors import BadInput

PAD, CLS, MASK = 0, 1, 2
FIRST_WORD = 3
"""Token number of word 0: word w is token w + FIRST_WORD; a model of c words has c + FIRST_WORD tokens."""


def tokens_of_words(ids: Int[Tensor, "n T"]) -> Int[Tensor, "n S"]:
    """[CLS] followed by each word's token, [PAD] where `ids` is negative; S = T + 1.

    >>> tokens_of_words(torch.tensor([[0, 4, -1]])).tolist()
    [[1, 3, 7, 0]]
    """
    words = torch.where(ids < 0, PAD, ids + FIRST_WORD)
    return torch.nn.functional.pad(words, (1, 0), value=CLS)


def vocabulary_settings(words: int, tokens: int | None) -> dict[str, Any]:
    """The vocabulary settings of a model's configuration, for a language of `words` words.

    With `tokens`, the model has that many, of which the language's words are the first after the special
    ones; `language_words` then records their number. Raises BadInput if `tokens` is too small.

    >>> vocabulary_settings(200, None), vocabulary_settings(200, 30_522)
    ({'vocab_size': 203}, {'vocab_size': 30522, 'language_words': 200})
    """
    if tokens is None:
        return {"vocab_size": words + FIRST_WORD}
    if tokens < words + FIRST_WORD:
        raise BadInput(
            f"a model of {tokens:,} tokens cannot read a language of {words:,} words and {FIRST_WORD} "
            "special tokens; give it more"
        )
    return {"vocab_size": tokens, "language_words": words}


def scores_of_language(model: nn.Module, scores: Float[Tensor, "m v"]) -> Float[Tensor, "m w"]:
    """The scores without columns of tokens that are no word of the language; see `vocabulary_settings`."""
    words: int | None = getattr(getattr(model, "config", None), "language_words", None)
    return scores if words is None else scores[:, : FIRST_WORD + words]


def word_vectors(model: nn.Module, ids: Int[Tensor, "n T"]) -> Float[Tensor, "n D"]:
    """The concatenated contextual vectors of all words of each unmasked sentence; D = T d.

    The vectors are the last hidden states of the `transformers` model's backbone, on the model's device and
    differentiable. [CLS], which pre-training does not train, is left out (paper, "Linear probe"); positions
    after a sentence's end are zero.
    """
    tokens = tokens_of_words(ids).to(next(model.parameters()).device)
    present = tokens != PAD
    backbone = getattr(model, "base_model", model)
    return vectors_of_words(backbone, tokens, None if bool(present.all()) else present)


def vectors_of_words(
    backbone: nn.Module, tokens: Int[Tensor, "n S"], present: Bool[Tensor, "n S"] | None
) -> Float[Tensor, "n D"]:
    """The same of sentences as `tokens` after a [CLS]; D = (S - 1) d; None where no token is padding."""
    vectors: Tensor = backbone(input_ids=tokens, attention_mask=present).last_hidden_state
    known = vectors if present is None else vectors * present[..., None]
    return known[:, 1:].flatten(1)
