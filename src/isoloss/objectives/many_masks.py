"""Masked language modelling with several words of a sentence masked at once, as on real text.

Its loss is defined in docs/what-is-measured.md.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.objectives.batch import Batch, PretrainingObjective
from isoloss.objectives.logits_at_predictions import masked_logits
from isoloss.objectives.masked import refuse_empty
from isoloss.objectives.tokens import FIRST_WORD, MASK, PAD, tokens_of_words
from isoloss.results.store import ONLY_WHEN_CHANGED


@runtime_checkable
class Replacement(Protocol):
    """A frozen dataclass of numbers."""

    def replace(self, tokens: Int[Tensor, " m"], generator: torch.Generator) -> Int[Tensor, " m"]:
        """The tokens shown in place of these."""
        ...


@dataclass(frozen=True)
class AlwaysMask:
    """[MASK], always.

    >>> AlwaysMask().replace(torch.tensor([5, 6]), torch.Generator()).tolist()
    [2, 2]
    """

    def replace(self, tokens: Int[Tensor, " m"], generator: torch.Generator) -> Int[Tensor, " m"]:  # noqa: ARG002
        """See `Replacement.replace`."""
        return torch.full_like(tokens, MASK)


@dataclass(frozen=True)
class BertReplacement:
    """BERT's 80/10/10 (Devlin et al. 2019, A.1): [MASK], a random word, or the word itself.

    A random word is uniform over the language's `words`, including the word itself, as in BERT. Raises
    BadInput for a word that is not among them.
    """

    words: int
    masked: float = 0.8
    random: float = 0.1

    def __post_init__(self) -> None:
        if self.words < 1 or min(self.masked, self.random) < 0 or self.masked + self.random > 1:
            raise BadInput(
                f"{self} makes no sense; give the number of the language's words, and two shares of at "
                "least 0 that are together at most 1"
            )

    def replace(self, tokens: Int[Tensor, " m"], generator: torch.Generator) -> Int[Tensor, " m"]:
        """See `Replacement.replace`."""
        if len(tokens) and int(tokens.max()) >= self.words + FIRST_WORD:
            raise BadInput(
                f"there is a word number {int(tokens.max()) - FIRST_WORD}, but the objective was made for "
                f"{self.words} words; make it for the language's own number"
            )
        uniform = torch.rand(len(tokens), generator=generator, dtype=torch.float64)
        words = torch.randint(self.words, (len(tokens),), generator=generator) + FIRST_WORD
        shown = words.where(uniform < self.masked + self.random, tokens)
        return shown.masked_fill(uniform < self.masked, MASK)


@dataclass(frozen=True)
class ManyMasksObjective:
    """Predicts `share` of each sentence's words at once, each replaced according to `replacement`.

    As in BERT and in Izsak et al. 2021, which the paper follows, exactly round(share T) of a sentence's T
    words are predicted (halves to even), at least one, drawn without replacement and never padding. With
    `copies`, each sentence is used that many times with new masks, as in the authors' code: row i is sentence
    i // copies, so that only the first n / copies of n given sentences are used, in n rows. This is for
    training only; see `once_each`. The loss averages within a sentence first. A language's masked
    distribution is that of one word given all the others, so models trained in this way are measured with
    `MaskedObjective`.

    >>> batch = ManyMasksObjective().draw(
    ...     Sentences.from_lists([[5] * 20, [5]]), torch.Generator().manual_seed(0)
    ... )
    >>> batch.rows.tolist(), (batch.input_ids == 2).sum(1).tolist()
    ([0, 0, 0, 1], [3, 1])
    """

    share: float = 0.15
    replacement: Replacement = field(default_factory=AlwaysMask)
    copies: int = field(default=1, metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise BadInput(
                f"the share of words that are masked must be above 0 and at most 1, not {self.share}"
            )
        if self.copies < 1:
            raise BadInput(f"a sentence is masked at least once, not in {self.copies} copies")

    def draw(self, sentences: Sentences, generator: torch.Generator) -> Batch:
        """Choose and replace words. Raises BadInput for an empty sentence."""
        refuse_empty(sentences)
        sentences = sentences[torch.arange(len(sentences)) // self.copies]
        places = _chosen(sentences, self.share, generator)
        tokens = tokens_of_words(sentences.ids)
        rows, positions = places.nonzero(as_tuple=True)
        positions = positions + 1
        targets = tokens[rows, positions]
        present = tokens != PAD
        tokens[rows, positions] = self.replacement.replace(targets, generator)
        return Batch(tokens, present, rows, positions, targets)

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """See `masked_logits`."""
        return masked_logits(model, batch)


def once_each(objective: PretrainingObjective) -> PretrainingObjective:
    """The objective for measurements: every sentence is used once, so that rows are independent sentences.

    >>> once_each(ManyMasksObjective(copies=5)) == ManyMasksObjective()
    True
    """
    return replace(objective, copies=1) if isinstance(objective, ManyMasksObjective) else objective


def _chosen(sentences: Sentences, share: float, generator: torch.Generator) -> Bool[Tensor, "n T"]:
    """round(share T) of each sentence's words, at least one, uniformly without replacement."""
    counts = (share * sentences.lengths.double()).round().long().clamp(min=1)
    uniform = torch.rand(sentences.ids.shape, generator=generator, dtype=torch.float64)
    order = uniform.masked_fill(~sentences.real, 2.0).argsort(dim=1)
    return order.argsort(dim=1) < counts[:, None]
