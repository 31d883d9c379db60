"""The exact distribution of a word as its label, in place of the word that was drawn.

The cross-entropy against Pr(. | context) has the mean gradient of that against a drawn word, without the
noise of the draw: the loss goes down to the entropy of the distribution itself.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.languages.language import Language, masked_log_probabilities_at
from isoloss.languages.sentences import PADDING, Sentences
from isoloss.objectives.batch import Batch, split_sentences
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.tokens import CLS, FIRST_WORD, MASK

AT_ONCE = 32
"""Sentences of a measured batch whose distributions are computed at once."""


@dataclass(frozen=True)
class SoftLabels:
    """Predicts what `of` predicts, trained against the exact distribution instead of the word drawn.

    L = E[-Σ_w Pr(w | x_-t) log f_w(x_-t)], whose minimum is the entropy and whose excess is KL(Pr || f). The
    language must have exact distributions. Batches carry them as `soft_targets`.

    >>> from isoloss.languages.pcfg import pcfg
    >>> from isoloss.languages.random_grammar import laptop_grammar
    >>> language, generator = pcfg(laptop_grammar(0)), torch.Generator().manual_seed(0)
    >>> sentences = language.sample(4, generator)
    >>> batch = SoftLabels().draw_from(language, sentences, generator)
    >>> [round(float(total), 6) for total in batch.soft_targets.sum(1)]
    [1.0, 1.0, 1.0, 1.0]
    """

    of: MaskedObjective | NextWordObjective = MaskedObjective()  # noqa: RUF009  (frozen)

    def draw(self, sentences: Sentences, generator: torch.Generator) -> Batch:
        """See `PretrainingObjective.draw`: the predictions of `of`, with the words drawn as their labels."""
        return self.of.draw(sentences, generator)

    def draw_from(self, language: Any, sentences: Sentences, generator: torch.Generator) -> Batch:
        """The same predictions with the language's distributions as `soft_targets`, float32.

        m predictions over c words take 4 m (c + 3) bytes, and seven times as many beside the language's own
        while they are made. Raises BadInput for a source of sentences whose distribution nobody knows.
        """
        if not isinstance(language, Language):
            raise BadInput(
                f"a {type(language).__name__} has no exact distribution to train on; leave soft labels to a "
                "language that has"
            )
        batch = self.of.draw(sentences, generator)
        return replace(batch, soft_targets=_distributions(language, sentences, batch, self.of).float())

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """Scores of the model's v tokens; see `of`."""
        return self.of.logits(model, batch)


def with_exact_labels(batch: Batch, language: Language, of: MaskedObjective | NextWordObjective) -> Batch:
    """A batch that `of` made of the language's sentences, with its distributions as float64 `soft_targets`.

    For measures of flatness, which would else have the noise of the words drawn. m predictions over c words
    take 8 m (c + 3) bytes.
    """
    parts = split_sentences(batch, -(-len(batch) // AT_ONCE))
    found = [_distributions(language, _sentences(part), part, of) for part in parts]
    return replace(batch, soft_targets=torch.cat(found))


def _distributions(
    language: Language, sentences: Sentences, batch: Batch, of: MaskedObjective | NextWordObjective
) -> Float[Tensor, "m tokens"]:
    """Probabilities of the first c + 3 tokens, special ones included, for each prediction."""
    if isinstance(of, NextWordObjective):
        log_probabilities = of.log_probabilities(language, sentences)
        special = torch.zeros(len(log_probabilities), FIRST_WORD, dtype=log_probabilities.dtype)
        special[:, CLS] = log_probabilities[:, -1].exp()  # the end of the sentence
        return torch.cat([special, log_probabilities[:, :-1].exp()], dim=1)
    of_words = masked_log_probabilities_at(language, sentences, batch.rows, batch.positions - 1)
    return nn.functional.pad(of_words.exp(), (FIRST_WORD, 0))


def _sentences(batch: Batch) -> Sentences:
    """Those that the batch is of, with the words in place that it masks."""
    ids = batch.input_ids.clone()
    masked = ids[batch.rows, batch.positions] == MASK
    ids[batch.rows[masked], batch.positions[masked]] = batch.targets[masked]
    real = batch.attention_mask[:, 1:]
    return Sentences((ids[:, 1:] - FIRST_WORD).where(real, PADDING), real.sum(dim=1))
