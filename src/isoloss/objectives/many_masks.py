"""Masked language modelling with several words of a sentence hidden at once, as on real text (spec 1)."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.languages.sentences import Sentences
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import refuse_empty
from isoloss.objectives.masked_logits import masked_logits
from isoloss.objectives.replacement import AlwaysMask, Replacement
from isoloss.objectives.tokens import PAD, tokens_of_words


@dataclass(frozen=True)
class ManyMasksObjective:
    """Predicts `share` of each sentence's words, all at once, each behind what `replacement` shows instead.

    As BERT does, and Izsak et al. 2021, whom the paper follows: of a sentence of T words exactly
    round(share T) are predicted (halves to even), at least one, drawn without replacement; padding never.
    The loss averages within a sentence first. A language's masked law is that of one word given all the
    others, so models trained so are measured with `MaskedObjective`.

    >>> batch = ManyMasksObjective().draw(
    ...     Sentences.from_lists([[5] * 20, [5]]), torch.Generator().manual_seed(0)
    ... )
    >>> batch.rows.tolist(), (batch.input_ids == 2).sum(1).tolist()
    ([0, 0, 0, 1], [3, 1])
    """

    share: float = 0.15
    replacement: Replacement = field(default_factory=AlwaysMask)

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise BadInput(
                f"the share of words that are masked must be above 0 and at most 1, not {self.share}"
            )

    def draw(self, sentences: Sentences, generator: torch.Generator) -> Batch:
        """Choose and replace words; row i is sentence i. Raises BadInput for an empty sentence."""
        refuse_empty(sentences)
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


def _chosen(sentences: Sentences, share: float, generator: torch.Generator) -> Bool[Tensor, "n T"]:
    """round(share T) of each sentence's words, at least one, uniformly without replacement."""
    counts = (share * sentences.lengths.double()).round().long().clamp(min=1)
    uniform = torch.rand(sentences.ids.shape, generator=generator, dtype=torch.float64)
    order = uniform.masked_fill(~sentences.real, 2.0).argsort(dim=1)
    return order.argsort(dim=1) < counts[:, None]
