"""The variant of the Dyck language of Section 5 and Appendix G: as many ⟨ as ⟩, in any order.

Either pure, or mixed with uniform strings: a masked bracket is then never certain, and its distribution
depends only on the other brackets' g* = #⟩ - #⟨.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.languages.bracket_strings import refuse_unbalanced
from isoloss.languages.language import Facts, WrittenLanguage
from isoloss.languages.sampling import sentence_keys
from isoloss.languages.sentences import (
    Sentences,
    refuse_other_lengths,
    refuse_undefined,
    refuse_unknown_words,
)
from isoloss.languages.task import LabelledSentences, Task
from isoloss.seeds import GOLDEN, mixed, next_shares

LEFT, RIGHT = 0, 1
READABLE = 10**15


@dataclass(frozen=True)
class Dyck:
    """The uniform distribution over the C(T, T/2) strings of T = `length` brackets, half of which are left
    ones; with probability 1 - `balanced_share` a string of T even and independent brackets instead.

    Brackets need not match in order: only their numbers count (Section 5). Create one with `dyck`.
    """

    length: int
    balanced_share: float = 1.0

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
        """SHA-256 of the language's name, length and, unless it is 1, the share of balanced strings."""
        mixed_in = "" if self.balanced_share == 1 else f" balanced {self.balanced_share!r}"
        return hashlib.sha256(f"dyck {self.length}{mixed_in}".encode()).hexdigest()

    @property
    def kind(self) -> str:
        return "Dyck language"

    def facts(self) -> Facts:
        balanced = f"{_count(math.comb(self.length, self.length // 2))}, all equally likely"
        if self.balanced_share == 1:
            return (("strings", balanced),)
        rest = f"{_count(2**self.length)}, all equally likely, for the rest"
        return (("strings", f"{balanced}, for {self.balanced_share:.0%} of the draws; {rest}"),)

    def file(self) -> WrittenLanguage:
        """See `WritesItself`: JSON; see `languages.language_file`."""
        return WrittenLanguage("language.json", write_dyck(self))

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        """Draw n strings, bracket by bracket from the next-word distribution, so that none is rejected."""
        stream = sentence_keys(n, generator)
        ids = np.empty((self.length, n), np.int64)
        lefts = np.full(n, self.length // 2)
        for t in range(self.length):
            # Uniform over 0, 1, .., remaining - 1 to within 2^-53.
            place = next_shares(stream) * (self.length - t)
            ids[t] = place >= lefts
            lefts -= 1 - ids[t]
        if self.balanced_share < 1:
            uniform = next_shares(stream) >= self.balanced_share
            ids = np.where(uniform, _even_brackets(self.length, stream), ids)
        return _strings(ids)

    def masked_log_probabilities(self, sentences: Sentences) -> Float[Tensor, "n T c"]:
        """log Pr(x_t = w | x_{-t}): a bracket counts 1 if it is the one that balances, and o in any case,
        where o is how many times as likely a string is as an unbalanced one.

        So it is 0 for the one bracket that the others leave, else -inf, where all strings are balanced.
        Raises BadInput for an unknown word, another length, and where no word fits a position.
        """
        refuse_unknown_words(sentences, 2)
        refuse_other_lengths(sentences, self.length)
        distribution = torch.zeros(*sentences.ids.shape, 2, dtype=torch.float64)
        left = _is_left(sentences)
        lefts_needed = self.length // 2 - (left.sum(1, keepdim=True) - left.long())
        distribution[..., LEFT] = (lefts_needed == 1).double()
        distribution[..., RIGHT] = (lefts_needed == 0).double()
        distribution += self._odds
        distribution /= distribution.sum(2, keepdim=True)  # nan if there is none
        distribution[~sentences.real] = 0
        refuse_undefined(distribution, torch.arange(len(sentences)), "no word at all fits position {}")
        return distribution.log_()

    @property
    def _odds(self) -> float:
        """A string's weight under the uniform component over a balanced string's under the balanced one."""
        share = self.balanced_share
        return (1 - share) / share * (math.comb(self.length, self.length // 2) / (1 << self.length))

    def next_log_probabilities(self, sentences: Sentences) -> Float[Tensor, "n T_1 c_1"]:
        """log Pr(x_{t+1} = w or the end | x_1..x_t): a bracket is left with the share of lefts that remain,
        or evenly, as likely as it is that the string is balanced, given its beginning.

        Raises BadInput for an unknown word, and where the first words begin no sentence.
        """
        refuse_unknown_words(sentences, 2)
        before = torch.nn.functional.pad(_is_left(sentences).cumsum(1), (1, 0))
        words = torch.arange(before.shape[1])
        lefts, remaining = self.length // 2 - before, (self.length - words).expand_as(before)
        end = remaining == 0
        distribution = torch.stack([lefts, remaining - lefts, end], 2).double()
        distribution[..., :2] /= remaining.clamp(min=1)[..., None]
        balanced = self._balanced_given_beginning(lefts, remaining)[..., None]
        evenly = torch.stack([~end, ~end, 2 * end], 2).double() / 2
        distribution = (distribution * balanced).where(balanced > 0, 0) + evenly * (1 - balanced)
        distribution[remaining < 0] = torch.nan
        distribution[words > sentences.lengths[:, None]] = 0
        rows = torch.arange(len(sentences))
        refuse_undefined(distribution, rows, "no sentence of the language goes on at position {}")
        return distribution.log_()

    def _balanced_given_beginning(
        self, lefts: Int[Tensor, "n T_1"], remaining: Int[Tensor, "n T_1"]
    ) -> Float[Tensor, "n T_1"]:
        """Pr(drawn as balanced | beginning), by left brackets and words to come; nan where impossible."""
        possible = (lefts >= 0) & (lefts <= remaining)
        if self.balanced_share == 1:
            return torch.ones(possible.shape, dtype=torch.float64).where(possible, torch.nan)
        # log of the share of endings that balance it, and the same for whole strings.
        ends = _log_choices(remaining, lefts) - remaining.double() * math.log(2)
        strings = _log_choices(torch.tensor(self.length), torch.tensor(self.length // 2))
        log_odds = ends - (strings - self.length * math.log(2))
        log_odds += math.log(self.balanced_share / (1 - self.balanced_share))
        return log_odds.sigmoid().where(possible, 0)

    def log_probability(self, sentences: Sentences) -> Float[Tensor, " n"]:
        """In nats; -log C(T, T/2) where all strings are balanced, -inf for another length."""
        refuse_unknown_words(sentences, 2)
        share, uniform = self.balanced_share, -math.inf
        if share < 1:
            uniform = math.log(1 - share) - self.length * math.log(2)
        balanced = np.logaddexp(math.log(share) - math.log(math.comb(self.length, self.length // 2)), uniform)
        result = torch.full((len(sentences),), -math.inf, dtype=torch.float64)
        result[sentences.lengths == self.length] = uniform
        result[(sentences.lengths == self.length) & (mismatches(sentences) == 0)] = float(balanced)
        return result

    def tasks(self) -> Sequence[Task]:
        """`Mismatches`, if uniform strings are mixed in.

        There is none for balanced strings alone: the paper's task for them is a regression on strings outside
        the language; see `counted_strings`.
        """
        return () if self.balanced_share == 1 else (Mismatches(self.length),)


def dyck(length: int, balanced_share: float = 1.0) -> Dyck:
    """The language of balanced strings of `length` brackets, mixed with uniform ones unless the share is 1.

    Raises BadInput for a length that is odd or below 2, and for a share outside (0, 1].

    >>> dyck(4).masked_log_probabilities(Sentences.from_lists([[0, 1, 1, 0]])).exp()[0].tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]
    >>> mixed_in = dyck(4, 0.4).masked_log_probabilities(Sentences.from_lists([[0, 1, 1, 1]])).exp()[0]
    >>> mixed_in.round(decimals=2).tolist()[:2]
    [[0.5, 0.5], [0.74, 0.26]]
    """
    refuse_unbalanced(length, balanced_share)
    return Dyck(length, float(balanced_share))


@dataclass(frozen=True)
class Mismatches:
    """The paper's downstream task as classes: g* of uniform strings of `length` brackets, -T, 2 - T, .., T.

    A linear head can solve it, since g* is linear in the brackets. `asked_of` says that the strings are not
    the language's sentences.
    """

    asked_of: ClassVar[str] = "strings of independent brackets, not the language's sentences"
    length: int

    @property
    def name(self) -> str:
        return "mismatches"

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(str(count) for count in range(-self.length, self.length + 1, 2))

    def sample(self, n: int, generator: torch.Generator) -> LabelledSentences:
        """See `Task`; the label is certain."""
        drawn = counted_strings(self.length, n, generator)
        labels = ((drawn.target + self.length) / 2).long()
        certain = torch.nn.functional.one_hot(labels, self.length + 1).double()
        return LabelledSentences(drawn.sentences, labels, certain)


@dataclass(frozen=True)
class CountedStrings:
    """Downstream examples: strings of brackets and their target g*(x) = #⟩ - #⟨ (equation 2)."""

    sentences: Sentences
    target: Float[Tensor, " n"]


def counted_strings(length: int, n: int, generator: torch.Generator) -> CountedStrings:
    """Draw n strings of `length` independent brackets, left or right with equal probability (Section 5).

    >>> drawn = counted_strings(6, 3, torch.Generator().manual_seed(0))
    >>> torch.equal(drawn.target, 2.0 * drawn.sentences.ids.sum(1) - 6)
    True
    """
    if length < 1:
        raise BadInput(f"strings of {length} brackets hold nothing to count; give a length of at least 1")
    strings = _strings(_even_brackets(length, sentence_keys(n, generator)))
    return CountedStrings(strings, mismatches(strings).float())


def mismatches(sentences: Sentences) -> Int[Tensor, " n"]:
    """g*(x) = #⟩ - #⟨, 0 for the strings that are balanced.

    >>> mismatches(Sentences.from_lists([[0, 1], [1, 1, 1, 0]])).tolist()
    [0, 2]
    """
    return sentences.lengths - 2 * _is_left(sentences).sum(1)


Brackets = np.ndarray[tuple[int, int], np.dtype[np.int64]]
Bits = np.ndarray[tuple[int], np.dtype[np.uint64]]


def _even_brackets(length: int, stream: Bits) -> Brackets:
    """Brackets [T, n], each left or right with equal probability; advances the streams by `length`."""
    ids = np.empty((length, len(stream)), np.int64)
    for t in range(length):
        stream += GOLDEN
        ids[t] = mixed(stream) >> np.uint64(63)
    return ids


def _count(strings: int) -> str:
    """A count in digits, or its magnitude where these could not be read, nor, beyond 4300, be written."""
    return f"{strings:,}" if strings < READABLE else f"about 10^{math.log10(strings):.0f}"


def _log_choices(of: Int[Tensor, "*any"], chosen: Int[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """log C(of, chosen) in nats, float64."""
    whole, part, rest = ((number.double() + 1).lgamma() for number in (of, chosen, of - chosen))
    return whole - part - rest


def _strings(ids: Brackets) -> Sentences:
    """Sentences from brackets [T, n]."""
    return Sentences(torch.from_numpy(ids).T.contiguous(), torch.full((ids.shape[1],), len(ids)))


def _is_left(sentences: Sentences) -> Bool[Tensor, "n T"]:
    return (sentences.ids == LEFT) & sentences.real


def write_dyck(language: Dyck) -> str:
    r"""Write a Dyck language as JSON, so that reading it gives an equal one.

    >>> write_dyck(dyck(8))
    '{"dyck": {"length": 8}}\n'
    """
    settings: dict[str, float] = {"length": language.length}
    if language.balanced_share != 1:
        settings["balanced_share"] = language.balanced_share
    return json.dumps({"dyck": settings}) + "\n"
