"""The interface of languages: sentences, and the exact distribution of every word."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.languages.sentences import Sentences
from isoloss.progress import Progress, silent

if TYPE_CHECKING:
    from isoloss.languages.task import Task

Facts = tuple[tuple[str, str], ...]
"""Names and values, in words."""


@runtime_checkable
class SentenceSource(Protocol):
    """An infinite source of sentences: every `Language`, and also a text, whose distributions are unknown."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The c words; a word's id is its index here."""
        ...

    @property
    def maximum_length(self) -> int:
        """The maximum number of words of a sentence."""
        ...

    @property
    def digest(self) -> str:
        """A hexadecimal digest of the source's whole content: equal sources have equal digests."""
        ...

    def sample(self, n: int, generator: torch.Generator) -> Sentences:
        """Draw n independent sentences, padded to `maximum_length`.

        The draws do not depend on how calls are split: 5 then 5 sentences are the 10 of one call.
        """
        ...


@runtime_checkable
class Language(SentenceSource, Protocol):
    """A distribution over sentences whose conditional distributions are known exactly."""

    def masked_log_probabilities(self, sentences: Sentences) -> Float[Tensor, "n T c"]:
        """log Pr(x_t = w | x_{-t}, length) in nats, float64, for every position; -inf on padding."""
        ...

    def next_log_probabilities(self, sentences: Sentences) -> Float[Tensor, "n T_1 c_1"]:
        """log Pr(x_{t+1} = w or the end | x_1..x_t) for t = 0..T, float64; the end is the last column.

        T_1 is T + 1 and c_1 is c + 1. Row t follows t words; rows after a sentence's end are -inf.
        """
        ...

    def log_probability(self, sentences: Sentences) -> Float[Tensor, " n"]:
        """log Pr(sentence) in nats, float64; -inf for a sentence outside the language."""
        ...

    def tasks(self) -> "Sequence[Task]":
        """The downstream tasks defined by the language's latent variables."""
        ...


@runtime_checkable
class DistributionsAtPositions(Protocol):
    """Additional interface of languages with expensive masked distributions; see `CausalLM`."""

    def masked_log_probabilities_at(
        self,
        sentences: Sentences,
        rows: Int[Tensor, " m"],
        positions: Int[Tensor, " m"],
        progress: Progress = silent,
    ) -> Float[Tensor, "m c"]:
        """log Pr(x_t = w | x_{-t}) for t = positions[j] (from 0) of sentence rows[j] alone, float64."""
        ...


SENTENCES_BYTES = 64 << 20
"""Of the distributions of several sentences at once, at every position of theirs."""


def masked_log_probabilities_at(
    language: Language, sentences: Sentences, rows: Int[Tensor, " m"], positions: Int[Tensor, " m"]
) -> Float[Tensor, "m c"]:
    """log Pr(x_t = w | x_{-t}) for t = positions[j] (from 0) of sentence rows[j], float64, in any language.

    Of one that computes every position of a sentence, at most `SENTENCES_BYTES` are kept beside the result,
    or one sentence's.
    """
    if isinstance(language, DistributionsAtPositions):
        return language.masked_log_probabilities_at(sentences, rows, positions)
    n, length = sentences.ids.shape
    words = len(language.vocabulary)
    at_once = max(1, SENTENCES_BYTES // max(1, 8 * length * words))
    if n <= at_once:
        return language.masked_log_probabilities(sentences)[rows, positions]
    found = torch.empty(len(rows), words, dtype=torch.float64)
    for start in range(0, n, at_once):
        inside = ((start <= rows) & (rows < start + at_once)).nonzero().flatten()
        of_some = language.masked_log_probabilities(sentences[start : start + at_once])
        found[inside] = of_some[rows[inside] - start, positions[inside]]
    return found


@runtime_checkable
class Described(Protocol):
    """Additional interface of languages, and of models behind them, that say of themselves what they are."""

    @property
    def kind(self) -> str:
        """What it is called in sentences, such as "hidden Markov model"."""
        ...

    def facts(self) -> Facts:
        """What a page says of it beside its words and its length."""
        ...


def kind_of(language: Language) -> str:
    """What a language is called in sentences; its type's name if it has no word for itself."""
    return language.kind if isinstance(language, Described) else type(language).__name__


@dataclass(frozen=True)
class WrittenLanguage:
    """The name and the text of a file that reads back as a language.

    A grammar's text does not contain the `maximum_length` that it is to be read with.
    """

    name: str
    text: str
    maximum_length: int | None = None


@runtime_checkable
class WritesItself(Language, Protocol):
    """Additional interface of languages that a text file holds whole; see `languages.language_file`."""

    def file(self) -> WrittenLanguage:
        """The file that reads back as this language."""
        ...


@dataclass(frozen=True)
class Derivation:
    """A node of a derivation tree: a symbol with its parts, or a word with none."""

    label: str
    children: "tuple[Derivation, ...]" = ()

    def __str__(self) -> str:
        """Bracketed text.

        >>> str(Derivation("S", (Derivation("A", (Derivation("a"),)), Derivation("b"))))
        '(S (A a) b)'
        """
        pieces: list[str] = []
        pending: list[Derivation | str] = [self]
        while pending:
            node = pending.pop()
            if isinstance(node, str) or not node.children:
                pieces.append(node if isinstance(node, str) else f" {node.label}")
                continue
            pieces.append(f" ({node.label}")
            pending.extend([")", *reversed(node.children)])
        return "".join(pieces).strip()

    @property
    def words(self) -> tuple[str, ...]:
        """The words below the node, left to right."""
        found: list[str] = []
        pending = [self]
        while pending:
            node = pending.pop()
            if not node.children:
                found.append(node.label)
            pending.extend(reversed(node.children))
        return tuple(found)


@runtime_checkable
class DrawsDerivations(Protocol):
    """Additional interface of languages whose sentences have derivation trees."""

    def sample_derivations(self, n: int, generator: torch.Generator) -> Sequence[Derivation]:
        """The derivations of the sentences that `sample` draws with the same generator."""
        ...
