"""How a language's words become a model's tokens: three special tokens, then the words in order."""

import torch
from jaxtyping import Int
from torch import Tensor

PAD, CLS, MASK = 0, 1, 2
FIRST_WORD = 3
"""Token number of word 0: word w is token w + FIRST_WORD; a model of c words has c + FIRST_WORD tokens."""


def tokens_of_words(ids: Int[Tensor, "n T"]) -> Int[Tensor, "n S"]:
    """[CLS] and then each word's token, [PAD] where `ids` is negative; S = T + 1.

    >>> tokens_of_words(torch.tensor([[0, 4, -1]])).tolist()
    [[1, 3, 7, 0]]
    """
    words = torch.where(ids < 0, PAD, ids + FIRST_WORD)
    return torch.nn.functional.pad(words, (1, 0), value=CLS)
