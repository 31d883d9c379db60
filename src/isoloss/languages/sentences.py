"""Sentences: word ids in a rectangle, checks of them and of probabilities, and a text as their source."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.languages.words import word_numbers

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
    """One sentence, from words separated by spaces. Raises BadInput for what `word_numbers` refuses.

    >>> encode_sentence("b a", ["a", "b"]).ids.tolist()
    [[1, 0]]
    """
    return Sentences.from_lists([word_numbers(text, vocabulary)])


TOLERANCE = 1e-6
"""How far from 1 a row's sum may be."""
ROUNDING = 1e-12
"""Rows closer to 1 than this are left as they are, so that writing and reading changes nothing."""


def refuse_unknown_words(sentences: Sentences, words: int) -> None:
    """Raise BadInput for an empty sentence, and for an id that is not one of a language's `words` words.

    >>> refuse_unknown_words(Sentences.from_lists([[0, 7]]), 2)
    Traceback (most recent call last):
    isoloss.errors.BadInput: sentence 1, position 2: there is no word number 7; words are numbered from 0 to 1
    """
    ids, lengths = sentences.ids, sentences.lengths
    if len(lengths) and int(lengths.min()) < 1:
        raise BadInput(f"sentence {int(lengths.argmin()) + 1} is empty; every sentence has at least one word")
    unknown = sentences.real & ((ids < 0) | (ids >= words))
    if unknown.any():
        row, place = unknown.nonzero()[0].tolist()
        raise BadInput(
            f"sentence {row + 1}, position {place + 1}: there is no word number {int(ids[row, place])}; "
            f"words are numbered from 0 to {words - 1}"
        )


def refuse_other_lengths(sentences: Sentences, length: int) -> None:
    """Raise BadInput for a sentence that does not have exactly `length` words.

    >>> refuse_other_lengths(Sentences.from_lists([[0, 0]]), 3)
    Traceback (most recent call last):
    isoloss.errors.BadInput: sentence 1 has 2 words, the language's have 3; give whole sentences
    """
    other = (sentences.lengths != length).nonzero()
    if len(other):
        row = int(other[0])
        raise BadInput(
            f"sentence {row + 1} has {int(sentences.lengths[row])} words, the language's have {length}; "
            "give whole sentences"
        )


def refuse_undefined(distribution: Float[Tensor, "r T c"], rows: Int[Tensor, " r"], sentence: str) -> None:
    """Raise BadInput if a distribution has a NaN: it conditions on what is impossible, or next to it.

    `rows` are the sentences' indices; `sentence` says what is wrong, with {} for the position.
    """
    undefined = distribution.sum(2).isnan()
    if undefined.any():
        row, place = undefined.nonzero()[0].tolist()
        raise BadInput(
            f"sentence {int(rows[row]) + 1}: {sentence.format(place + 1)}; check its words, and that the "
            "language's probabilities are neither too small (below 1e-60) nor too unlike along the sentence "
            "to be computed with"
        )


def checked_distributions(rows: Float[Tensor, "r k"], place: str) -> Float[Tensor, "r k"]:
    """The rows as float64 distributions; raises BadInput for one that is none, `place` saying whose rows they
    are.

    >>> checked_distributions(torch.tensor([[0.5, 0.4999995]], dtype=torch.float64), "emission").sum().item()
    1.0
    >>> checked_distributions(torch.tensor([[0.5, 0.5], [0.5, 0.25]]), "emission")
    Traceback (most recent call last):
    isoloss.errors.BadInput: emission, row 2 sums to 0.75; make its probabilities sum to 1
    """
    distributions = rows.double().contiguous()
    wrong = ~((distributions >= 0) & (distributions <= 1 + TOLERANCE))
    if wrong.any():
        row, column = wrong.nonzero()[0].tolist()
        raise BadInput(
            f"{place}, row {row + 1} has {distributions[row, column].item():g} at place {column + 1}, which "
            "is no probability; give numbers from 0 to 1"
        )
    totals = distributions.sum(1, keepdim=True)
    off = (totals - 1).abs()
    if (off > TOLERANCE).any():
        row = int((off > TOLERANCE).nonzero()[0, 0])
        raise BadInput(
            f"{place}, row {row + 1} sums to {totals[row].item():.8g}; make its probabilities sum to 1"
        )
    return torch.where(off > ROUNDING, distributions / totals, distributions)


@dataclass(frozen=True, eq=False)
class TextWindows:
    """A `SentenceSource`: `maximum_length` consecutive words of a text from a uniformly chosen start.

    `text` holds word ids, `starts` the possible starts. Create one with `text_windows`.
    """

    text: Int[Tensor, " N"]
    starts: Int[Tensor, " s"]
    vocabulary: tuple[str, ...]
    maximum_length: int

    @property
    def digest(self) -> str:
        """SHA-256 of the words, the text, its starts, and the length."""
        digest = hashlib.sha256(repr((self.vocabulary, self.maximum_length, len(self.text))).encode())
        for numbers in (self.text, self.starts):
            digest.update(numbers.numpy().tobytes())
        return digest.hexdigest()

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        """Draw n windows, which overlap if their starts are close."""
        drawn = self.starts[torch.randint(len(self.starts), (n,), generator=generator)]
        ids = self.text[drawn[:, None] + torch.arange(self.maximum_length)]
        return Sentences(ids, torch.full((n,), self.maximum_length))


def text_windows(
    sentences: Sequence[Sequence[int]], vocabulary: tuple[str, ...], maximum_length: int
) -> TextWindows:
    """Windows that start with one of the text's `sentences` (word ids), and continue past its end.

    Raises BadInput for an unknown id, and for a text that is shorter than a window.

    >>> windows = text_windows([[0, 1], [2], [3, 0, 1]], ("a", "b", "c", "d"), maximum_length=3)
    >>> windows.starts.tolist()
    [0, 2, 3]
    >>> windows.sample(2, torch.Generator().manual_seed(0)).ids.tolist()
    [[3, 0, 1], [0, 1, 2]]
    """
    lengths = torch.tensor([len(words) for words in sentences], dtype=torch.int64)
    text = torch.tensor([word for words in sentences for word in words], dtype=torch.int64)
    starts = (lengths.cumsum(0) - lengths)[lengths > 0]
    starts = starts[starts + maximum_length <= len(text)]
    if maximum_length < 1 or not len(starts):
        raise BadInput(f"a text of {len(text)} words has no window of {maximum_length}; give a longer text")
    if int(text.min()) < 0 or int(text.max()) >= len(vocabulary):
        raise BadInput(
            f"the text has word numbers that are none of its {len(vocabulary)} words; encode it again"
        )
    return TextWindows(text, starts, vocabulary, maximum_length)


def words_in_a_row(words: int, maximum_length: int) -> TextWindows:
    """Windows of a text that cycles through word 0, word 1 and so on.

    For computations that depend only on the sizes of vocabulary and sentences, before these exist.

    >>> words_in_a_row(3, maximum_length=2).text.tolist()
    [0, 1, 2, 0, 1]
    """
    text = [[place % words] for place in range(words + maximum_length)]
    return text_windows(text, tuple(map(str, range(words))), maximum_length)
