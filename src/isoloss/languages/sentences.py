"""Sentences: a rectangular array of word ids, with each sentence's own length."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from isoloss.errors import BadInput, did_you_mean

PADDING = -1
"""What stands in `Sentences.ids` after a sentence's end; no word has this number."""


@dataclass(frozen=True)
class Sentences:
    """A batch of n sentences of at most T words.

    `ids[i, t]` is the id of sentence i's word t in the language's vocabulary, PADDING from `lengths[i]` on.
    Positions count from 0 in the library and from 1 in user-facing text.

    >>> batch = Sentences.from_lists([[0, 1, 1], [2]])
    >>> batch.ids.tolist(), batch.lengths.tolist()
    ([[0, 1, 1], [2, -1, -1]], [3, 1])
    >>> batch.real.sum(1).tolist()
    [3, 1]
    """

    ids: Int[Tensor, "n T"]
    lengths: Int[Tensor, " n"]

    def __len__(self) -> int:
        return self.ids.shape[0]

    @property
    def real(self) -> Tensor:
        """[n, T] bool: true for words, false for padding."""
        return torch.arange(self.ids.shape[1], device=self.ids.device) < self.lengths[:, None]

    def __getitem__(self, rows: Tensor | slice) -> "Sentences":
        return Sentences(self.ids[rows], self.lengths[rows])

    @staticmethod
    def from_lists(sentences: list[list[int]]) -> "Sentences":
        """Sentences from ragged lists of word ids."""
        width = max((len(words) for words in sentences), default=0)
        ids = torch.full((len(sentences), width), PADDING, dtype=torch.int64)
        for row, words in enumerate(sentences):
            ids[row, : len(words)] = torch.tensor(words, dtype=torch.int64)
        return Sentences(ids, torch.tensor([len(words) for words in sentences], dtype=torch.int64))


def encode_sentence(text: str, vocabulary: Sequence[str]) -> Sentences:
    """One sentence, from words separated by spaces.

    Raises BadInput for an empty sentence and for a word outside the vocabulary, with its position
    (from 1) and the nearest word that there is.

    >>> encode_sentence("b a", ["a", "b"]).ids.tolist()
    [[1, 0]]
    >>> encode_sentence("the catt", ["the", "cat"])
    Traceback (most recent call last):
    isoloss.errors.BadInput: word 2, 'catt', is not in the vocabulary; did you mean 'cat'?
    """
    words = text.split()
    if not words:
        raise BadInput("the sentence is empty; give at least one word, words separated by blanks")
    numbers = {word: number for number, word in enumerate(vocabulary)}
    for place, word in enumerate(words, start=1):
        if word not in numbers:
            advice = did_you_mean(word, vocabulary) or f"; known words are {_some(vocabulary)}"
            raise BadInput(f"word {place}, {word!r}, is not in the vocabulary{advice}")
    return Sentences.from_lists([[numbers[word] for word in words]])


def _some(vocabulary: Sequence[str]) -> str:
    shown = ", ".join(repr(word) for word in vocabulary[:5])
    return f"{shown} and {len(vocabulary) - 5} more" if len(vocabulary) > 5 else shown
