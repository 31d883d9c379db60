"""A text as a source of sentences: its distributions are unknown, so it can only be trained on."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences


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
