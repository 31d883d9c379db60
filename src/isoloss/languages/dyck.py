"""The variant of the Dyck language of Section 5 and Appendix G: as many ⟨ as ⟩, in any order."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.files import read_text
from isoloss.languages.refusals import refuse_other_lengths, refuse_undefined, refuse_unknown_words
from isoloss.languages.sampling import GOLDEN, mixed, sentence_keys
from isoloss.languages.sentences import Sentences
from isoloss.languages.task import Task

EXAMPLE = '{"dyck": {"length": 8}}'
LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class Dyck:
    """The uniform distribution over the C(T, T/2) strings of T = `length` brackets, half of which are left
    ones.

    Brackets need not match in order: only the numbers count (Section 5). Make one with `dyck`.
    """

    length: int

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The paper's ⟨ and ⟩, as they are typed."""
        return ("<", ">")

    @property
    def maximum_length(self) -> int:
        """T."""
        return self.length

    @property
    def digest(self) -> str:
        """SHA-256 of the language's name and length."""
        return hashlib.sha256(f"dyck {self.length}".encode()).hexdigest()

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        """Draw n strings, bracket by bracket from the next-word distribution, so that none is rejected."""
        stream = sentence_keys(n, generator)
        ids = np.empty((self.length, n), np.int64)
        lefts = np.full(n, self.length // 2)
        for t in range(self.length):
            stream += GOLDEN
            # Uniform over 0, 1, .., remaining - 1 to within 2^-53.
            place = (mixed(stream) >> np.uint64(11)).astype(np.float64) * 2.0**-53 * (self.length - t)
            ids[t] = place >= lefts
            lefts -= 1 - ids[t]
        return _strings(ids)

    def masked_log_probabilities(self, sentences: Sentences) -> Float[Tensor, "n T c"]:
        """log Pr(x_t = w | x_{-t}): 0 for the one bracket that the others leave, else -inf.

        Raises BadInput for an unknown word, another length, and where no word fits a position.
        """
        refuse_unknown_words(sentences, 2)
        refuse_other_lengths(sentences, self.length)
        distribution = torch.zeros(*sentences.ids.shape, 2, dtype=torch.float64)
        left = _is_left(sentences)
        lefts_needed = self.length // 2 - (left.sum(1, keepdim=True) - left.long())
        distribution[..., LEFT] = (lefts_needed == 1).double()
        distribution[..., RIGHT] = (lefts_needed == 0).double()
        distribution[distribution.sum(2) == 0] = torch.nan
        distribution[~sentences.real] = 0
        refuse_undefined(distribution, torch.arange(len(sentences)), "no word at all fits position {}")
        return distribution.log_()

    def next_log_probabilities(self, sentences: Sentences) -> Float[Tensor, "n T_1 c_1"]:
        """log Pr(x_{t+1} = w or the end | x_1..x_t): a bracket is left with the share of lefts that remain.

        Raises BadInput for an unknown word, and where the first words begin no sentence.
        """
        refuse_unknown_words(sentences, 2)
        before = torch.nn.functional.pad(_is_left(sentences).cumsum(1), (1, 0))
        words = torch.arange(before.shape[1])
        lefts, remaining = self.length // 2 - before, self.length - words
        end = (remaining == 0).expand_as(lefts)
        distribution = torch.stack([lefts, remaining - lefts, end], 2).double()
        distribution[..., :2] /= remaining.clamp(min=1)[:, None]
        distribution[(lefts < 0) | (lefts > remaining)] = torch.nan
        distribution[words > sentences.lengths[:, None]] = 0
        rows = torch.arange(len(sentences))
        refuse_undefined(distribution, rows, "no sentence of the language goes on at position {}")
        return distribution.log_()

    def log_probability(self, sentences: Sentences) -> Float[Tensor, " n"]:
        """-log C(T, T/2) in nats for a balanced string of T brackets, -inf for any other."""
        refuse_unknown_words(sentences, 2)
        inside = (sentences.lengths == self.length) & (mismatches(sentences) == 0)
        result = torch.full((len(sentences),), -math.inf, dtype=torch.float64)
        result[inside] = -math.log(math.comb(self.length, self.length // 2))
        return result

    def tasks(self) -> Sequence[Task]:
        """None: the paper's downstream task is a regression on other strings; see `counted_strings`."""
        return ()


def dyck(length: int) -> Dyck:
    """The language of balanced strings of `length` brackets; BadInput for an odd length or one below 2.

    >>> dyck(4).masked_log_probabilities(Sentences.from_lists([[0, 1, 1, 0]])).exp()[0].tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]
    """
    if length < 2 or length % 2:
        raise BadInput(f"no string of {length} brackets is balanced; give an even length of at least 2")
    return Dyck(length)


@dataclass(frozen=True)
class CountedStrings:
    """Downstream examples: strings of brackets and their target g*(x) = #⟩ - #⟨ (equation 2)."""

    sentences: Sentences
    target: Float[Tensor, " n"]


def counted_strings(length: int, n: int, generator: torch.Generator) -> CountedStrings:
    """Draw n strings of `length` brackets, each bracket left or right evenly and independently (Section 5).

    >>> drawn = counted_strings(6, 3, torch.Generator().manual_seed(0))
    >>> torch.equal(drawn.target, 2.0 * drawn.sentences.ids.sum(1) - 6)
    True
    """
    if length < 1:
        raise BadInput(f"strings of {length} brackets hold nothing to count; give a length of at least 1")
    stream = sentence_keys(n, generator)
    ids = np.empty((length, n), np.int64)
    for t in range(length):
        stream += GOLDEN
        ids[t] = mixed(stream) >> np.uint64(63)
    strings = _strings(ids)
    return CountedStrings(strings, mismatches(strings).float())


def mismatches(sentences: Sentences) -> Int[Tensor, " n"]:
    """g*(x) = #⟩ - #⟨, 0 for the strings that are balanced.

    >>> mismatches(Sentences.from_lists([[0, 1], [1, 1, 1, 0]])).tolist()
    [0, 2]
    """
    return sentences.lengths - 2 * _is_left(sentences).sum(1)


def _strings(ids: np.ndarray[tuple[int, int], np.dtype[np.int64]]) -> Sentences:
    """Sentences from brackets [T, n]."""
    return Sentences(torch.from_numpy(ids).T.contiguous(), torch.full((ids.shape[1],), len(ids)))


def _is_left(sentences: Sentences) -> Bool[Tensor, "n T"]:
    return (sentences.ids == LEFT) & sentences.real


def read_dyck(path: Path | str) -> Dyck:
    """Read a Dyck language from a JSON file; see `parse_dyck`.

    Raises BadInput when there is no such file, when it is no text, or for what `parse_dyck` refuses.
    """
    return parse_dyck(read_text(Path(path), f"a Dyck language, such as {EXAMPLE}"), str(path))


def parse_dyck(text: str, source: str = "the Dyck language") -> Dyck:
    """Read a Dyck language from JSON.

    Raises BadInput, naming `source`, for anything but an object like that of `write_dyck`, and for a length
    that `dyck` refuses.

    >>> parse_dyck('{"dyck": {"length": 8}}')
    Dyck(length=8)
    """
    try:
        content = json.loads(text)
        length = content["dyck"]["length"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(f"{source}: this is no Dyck language; write {EXAMPLE}") from error
    if content != {"dyck": {"length": length}} or type(length) is not int:
        raise BadInput(f"{source}: a Dyck language is its length, a whole number, alone; write {EXAMPLE}")
    try:
        return dyck(length)
    except BadInput as error:
        raise BadInput(f"{source}: {error}") from error


def write_dyck(language: Dyck) -> str:
    r"""Write a Dyck language as JSON, so that reading it gives an equal one.

    >>> write_dyck(dyck(8))
    '{"dyck": {"length": 8}}\n'
    """
    return json.dumps({"dyck": {"length": language.length}}) + "\n"
