"""Masked language modelling: one word of a sentence is masked and predicted, or many, as on real text.

The losses are defined in docs/what-is-measured.md.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.languages.language import Language, masked_log_probabilities_at
from isoloss.languages.sentences import Sentences
from isoloss.objectives.batch import Batch, PretrainingObjective, ScoresBatches
from isoloss.objectives.predicted_logits import masked_logits
from isoloss.objectives.tokens import FIRST_WORD, MASK, PAD, tokens_of_words
from isoloss.results.store import ONLY_WHEN_CHANGED
from isoloss.seeds import GOLDEN, mixed


@dataclass(frozen=True)
class MaskedObjective:
    """Predicts the masked word x_t from x_{-t}; word t (from 0) is token t + 1, after [CLS].

    >>> sentences = Sentences.from_lists([[4, 0], [2]])
    >>> batch = MaskedObjective().mask_every_position(sentences)
    >>> batch.input_ids.tolist(), batch.positions.tolist(), batch.targets.tolist()
    ([[1, 2, 3], [1, 7, 2], [1, 2, 0]], [1, 2, 1], [7, 3, 5])
    """

    quantity: ClassVar[str] = "masked"

    def draw(self, sentences: Sentences, generator: torch.Generator) -> Batch:
        """One mask per sentence (docs/what-is-measured.md); see `mask_one`."""
        return self.mask_one(sentences, generator)

    def every_prediction(self, sentences: Sentences, first: int = 0) -> Batch:
        """Each word masked in turn; see `mask_every_position`."""
        return self.mask_every_position(sentences)

    def predictions(self, sentences: Sentences) -> Int[Tensor, " n"]:
        """See `ExactObjective.predictions`: the words."""
        return sentences.lengths

    def log_probabilities(
        self, language: Language, sentences: Sentences, first: int = 0
    ) -> Float[Tensor, "m k"]:
        """See `ExactObjective.log_probabilities`: the language's masked distributions."""
        return language.masked_log_probabilities(sentences)[sentences.real]

    def outcomes(self, scores: Float[Tensor, "m v"]) -> Float[Tensor, "m k"]:
        """See `ExactObjective.outcomes`: the words."""
        return scores[:, FIRST_WORD:]

    def mask_one(self, sentences: Sentences, generator: torch.Generator) -> Batch:
        """Mask one word of every sentence, uniform over the sentence's positions.

        Row i of the batch is sentence i. Raises BadInput when a sentence has no words.
        """
        refuse_empty(sentences)
        uniform = torch.rand(len(sentences), generator=generator, dtype=torch.float64)
        # A float64 uniform below 1 times a length rounds to below the length, so the floor is a position.
        places = (uniform * sentences.lengths).long()
        return self.mask_places(sentences, places)

    def mask_places(self, sentences: Sentences, places: Int[Tensor, " n"]) -> Batch:
        """Mask word `places[i]` (from 0) of sentence i; row i of the batch is sentence i."""
        return _masked(tokens_of_words(sentences.ids), places + 1)

    def mask_every_position(self, sentences: Sentences) -> Batch:
        """Mask each word in turn: one row per word, with the rows of a sentence adjacent and in order.

        Row r belongs to the sentence and position `sentences.real.nonzero()[r]`. The batch takes 17 bytes per
        token and has a row for every word, so n sentences of T words need 17 n T (T + 1) bytes: pass no more
        sentences at once than memory allows. `sentence_averaged_loss` weights its rows equally, which gives
        the token-averaged loss if lengths vary.
        """
        refuse_empty(sentences)
        rows, places = sentences.real.nonzero(as_tuple=True)
        return _masked(tokens_of_words(sentences.ids)[rows], places + 1)

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """Scores of the model's v tokens, including special tokens; see `masked_logits`.

        A lookup table scores batches itself.
        """
        if isinstance(model, ScoresBatches):
            return model.logits(batch)
        return masked_logits(model, batch)


def _masked(tokens: Int[Tensor, "n S"], positions: Int[Tensor, " n"]) -> Batch:
    """One prediction per row, at `positions`, whose token is masked; overwrites `tokens`."""
    rows = torch.arange(len(tokens), device=tokens.device)
    targets = tokens[rows, positions]
    attention_mask = tokens != PAD
    tokens[rows, positions] = MASK
    return Batch(tokens, attention_mask, rows, positions, targets)


def refuse_empty(sentences: Sentences) -> None:
    """Raise BadInput for a sentence without words."""
    empty = (sentences.lengths == 0).nonzero()
    if len(empty):
        raise BadInput(
            f"sentence {int(empty[0])} (from 0) has no words, so nothing can be masked; leave it out"
        )


@dataclass(frozen=True)
class OneMaskedWord:
    """Measures the masked distribution at one random word per sentence, which leaves the means unchanged.

    All positions are equally likely; a sentence's position is a function of `seed` and the sentence's index
    among those measured. For a language that reads suffixes (`CausalLM`), with 2,000 words and sentences of
    24, this costs a 24th, with wider error bars. Training and flatness use `MaskedObjective`.

    >>> batch = OneMaskedWord(seed=1).every_prediction(Sentences.from_lists([[4, 0, 1], [2]]))
    >>> batch.rows.tolist(), int(batch.positions[1])
    ([0, 1], 1)
    """

    seed: int = 0
    quantity: ClassVar[str] = "masked"

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise BadInput(f"the seed must be from 0 to {2**63 - 1}, not {self.seed}")

    def places(self, sentences: Sentences, first: int = 0) -> Int[Tensor, " n"]:
        """Which word of each sentence is masked, from 0; `first` is the number of the first sentence."""
        numbers = np.arange(first, first + len(sentences), dtype=np.uint64)
        keys = mixed(numbers + mixed(np.full(len(sentences), self.seed, np.uint64) + GOLDEN))
        uniform = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return (torch.from_numpy(uniform) * sentences.lengths).long()

    def every_prediction(self, sentences: Sentences, first: int = 0) -> Batch:
        """See `ExactObjective.every_prediction`: one row with one prediction per sentence."""
        refuse_empty(sentences)
        return MaskedObjective().mask_places(sentences, self.places(sentences, first))

    def predictions(self, sentences: Sentences) -> Int[Tensor, " n"]:
        """See `ExactObjective.predictions`: one."""
        return torch.ones_like(sentences.lengths)

    def log_probabilities(
        self, language: Language, sentences: Sentences, first: int = 0
    ) -> Float[Tensor, "m k"]:
        """See `ExactObjective.log_probabilities`; computes only these if the language can."""
        rows, places = torch.arange(len(sentences)), self.places(sentences, first)
        return masked_log_probabilities_at(language, sentences, rows, places)

    def outcomes(self, scores: Float[Tensor, "m v"]) -> Float[Tensor, "m k"]:
        """See `ExactObjective.outcomes`: the words."""
        return MaskedObjective().outcomes(scores)

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        return MaskedObjective().logits(model, batch)


@dataclass(frozen=True)
class AlwaysMask:
    """[MASK], always.

    >>> AlwaysMask().replace(torch.tensor([5, 6]), torch.Generator()).tolist()
    [2, 2]
    """

    def replace(self, tokens: Int[Tensor, " m"], _generator: torch.Generator) -> Int[Tensor, " m"]:
        """The tokens shown in place of these."""
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
        """The tokens shown in place of these; raises BadInput for one that is no word of the language."""
        if len(tokens) and int(tokens.max()) >= self.words + FIRST_WORD:
            raise BadInput(
                f"there is a word number {int(tokens.max()) - FIRST_WORD}, but the objective was made for "
                f"{self.words} words; make it for as many as the language has"
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
    replacement: AlwaysMask | BertReplacement = field(default_factory=AlwaysMask)
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
