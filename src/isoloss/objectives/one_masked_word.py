"""One masked word a sentence, for the exact loss on languages whose laws cost too much for every word."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.languages.language import Language, LawsAtPositions
from isoloss.languages.sampling import GOLDEN, mixed
from isoloss.languages.sentences import Sentences
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective, refuse_empty


@dataclass(frozen=True)
class OneMaskedWord:
    """Measures the masked law of one word of each sentence, which stands for all: the means are the same.

    All places are as likely; a sentence's is a function of `seed` and of its number among those measured.
    A language of 2,000 words and sentences of 24 that reads suffixes so costs a 24th (`CausalLM`); error bars
    are wider for it. Models are trained and their flatness measured with `MaskedObjective`.

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
        """See `ExactObjective.every_prediction`: a row and a prediction a sentence."""
        refuse_empty(sentences)
        return MaskedObjective().mask_places(sentences, self.places(sentences, first))

    def predictions(self, sentences: Sentences) -> Int[Tensor, " n"]:
        """See `ExactObjective.predictions`: one."""
        return torch.ones_like(sentences.lengths)

    def log_law(self, language: Language, sentences: Sentences, first: int = 0) -> Float[Tensor, "m k"]:
        """See `ExactObjective.log_law`; nothing but these laws is worked out where the language can do so."""
        rows, places = torch.arange(len(sentences)), self.places(sentences, first)
        if isinstance(language, LawsAtPositions):
            return language.masked_log_law_at(sentences, rows, places)
        return language.masked_log_law(sentences)[rows, places]

    def outcomes(self, scores: Float[Tensor, "m v"]) -> Float[Tensor, "m k"]:
        """See `ExactObjective.outcomes`: the words."""
        return MaskedObjective().outcomes(scores)

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """See `MaskedObjective.logits`."""
        return MaskedObjective().logits(model, batch)
