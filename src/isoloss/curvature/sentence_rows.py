"""Maps the rows of a model's internal arrays to sentences."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, split_sentences

BLOCKS = 64
"""Clusters that are enough for an error bar: its own relative error is then 1 / √(2 · 63), about 9 %."""
LARGEST = 8
"""Sentences that a block has at most, so that differentiating it twice takes little memory."""


@dataclass(frozen=True)
class SentenceRows:
    """The sizes n, S and m of a batch, from which the layout of a model's arrays is recognised.

    `sentence[j]` is the sentence of prediction j, `place[j]` its index among that sentence's predictions.
    `positions` is 0 for arrays that have rows for selected words only (see `routed`).
    """

    sentences: int
    positions: int
    sentence: Int[Tensor, " m"]
    place: Int[Tensor, " m"]

    @staticmethod
    def of(batch: Batch) -> "SentenceRows":
        """Read the sizes off a batch, whose rows are sorted."""
        counts = torch.bincount(batch.rows, minlength=len(batch))
        first = counts.cumsum(0) - counts
        number = torch.arange(len(batch.rows), device=batch.rows.device)
        return SentenceRows(len(batch), batch.input_ids.shape[1], batch.rows, number - first[batch.rows])

    def routed(self, words: Int[Tensor, " k"]) -> "SentenceRows":
        """For arrays with one row for each of these words, in any order; word s of sentence i is i S + s.

        >>> rows = SentenceRows(2, 3, torch.tensor([0]), torch.tensor([0]))
        >>> found = rows.routed(torch.tensor([4, 0, 5]))
        >>> found.sentence.tolist(), found.place.tolist()
        ([1, 0, 1], [0, 0, 1])
        """
        sentence = words // self.positions
        counts = torch.bincount(sentence, minlength=self.sentences)
        first = counts.cumsum(0) - counts
        place, order = torch.empty_like(sentence), sentence.argsort(stable=True)
        place[order] = torch.arange(len(words), device=words.device) - first[sentence[order]]
        return SentenceRows(self.sentences, 0, sentence, place)

    def are_words(self, shape: tuple[int, ...]) -> bool:
        """Whether an array with these leading dimensions has an entry for each position of each sentence."""
        return shape[:2] == (self.sentences, self.positions)

    def by_sentence(self, array: Float[Tensor, "... d"], shape: tuple[int, ...]) -> Tensor | None:
        """[n, T, d]: the array's rows, sentence by sentence, padded with zeros.

        `shape` is the leading dimensions before anything flattened them. Recognised are [n, ..., S, ...] and
        [S, n, ...], and one row per prediction, [m] or [m, 1]. None for any other array, which the sentences
        may share.
        """
        n, positions, m, d = self.sentences, self.positions, len(self.sentence), array.shape[-1]
        if n == 1:
            return array.reshape(1, -1, d)
        if len(shape) > 1 and shape[0] == n and positions in shape[1:]:
            return array.reshape(n, -1, d)
        if shape[:2] == (positions, n):
            return array.reshape(positions, n, -1, d).transpose(0, 1).flatten(1, 2)
        return self._predictions(array.reshape(m, d)) if shape in ((m,), (m, 1)) else None

    def _predictions(self, array: Float[Tensor, "m d"]) -> Float[Tensor, "n M d"]:
        most = int(self.place.max()) + 1
        own = most * self.sentence + self.place
        if most * self.sentences == len(array) and bool((own[1:] > own[:-1]).all()):
            return array.view(self.sentences, most, -1)
        padded = array.new_zeros(self.sentences, most, array.shape[1])
        padded[self.sentence, self.place] = array
        return padded


def sentence_blocks(batches: Sequence[Batch], fewest: int = 2, largest: int = LARGEST) -> list[Batch]:
    """All sentences of the batches, in order, in at least `BLOCKS` blocks, as equal as the batches allow.

    If there are fewer sentences than `BLOCKS`, each is a block. No block has more than `largest` sentences or
    spans two batches. Raises BadInput for fewer than `fewest` sentences.
    """
    n = sum(map(len, batches))
    if n < fewest:
        raise BadInput(f"{n} sentences have no standard error; measure on at least {fewest}")
    size = max(1, min(largest, n // BLOCKS))
    blocks = []
    for batch in batches:
        blocks += split_sentences(batch, -(-len(batch) // size))
    return blocks
