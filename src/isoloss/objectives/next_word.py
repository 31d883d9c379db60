"""Next-word prediction: each word, and the end of the sentence, from the preceding words.

Its loss is defined in docs/what-is-measured.md.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from isoloss.languages.language import Language
from isoloss.languages.sentences import Sentences
from isoloss.objectives.batch import Batch
from isoloss.objectives.predicted_logits import causal_logits
from isoloss.objectives.tokens import CLS, FIRST_WORD, PAD, tokens_of_words


@dataclass(frozen=True)
class NextWordObjective:
    """Predicts x_{t+1} from x_1..x_t for t = 0..T, where the last word is followed by the end.

    The end is a separate event in every language, even if the length makes it certain: a sentence of T words
    has T + 1 predictions, and its loss is -log Pr(sentence) / (T + 1). The end token is [CLS], which thus
    begins and ends a sentence, as GPT-2's <|endoftext|> does.

    >>> batch = NextWordObjective().every_prediction(Sentences.from_lists([[4, 0], [2]]))
    >>> batch.input_ids.tolist(), batch.positions.tolist(), batch.targets.tolist()
    ([[1, 7, 3], [1, 5, 0]], [0, 1, 2, 0, 1], [7, 3, 1, 5, 1])
    """

    quantity: ClassVar[str] = "next_word"

    def draw(self, sentences: Sentences, generator: torch.Generator) -> Batch:
        """All predictions: nothing is random."""
        return self.every_prediction(sentences)

    def every_prediction(self, sentences: Sentences, first: int = 0) -> Batch:
        """All T + 1 predictions of each sentence, in one row; at most 33 bytes per token."""
        tokens = tokens_of_words(sentences.ids)
        present = tokens != PAD
        rows, positions = present.nonzero(as_tuple=True)
        following = torch.nn.functional.pad(tokens[:, 1:], (0, 1), value=PAD)
        targets = following.where(following != PAD, CLS)[rows, positions]
        return Batch(tokens, present, rows, positions, targets)

    def predictions(self, sentences: Sentences) -> Int[Tensor, " n"]:
        """See `ExactObjective.predictions`: the words and the end."""
        return sentences.lengths + 1

    def log_probabilities(
        self, language: Language, sentences: Sentences, first: int = 0
    ) -> Float[Tensor, "m k"]:
        """See `ExactObjective.log_probabilities`: of the next word; the last outcome is the end."""
        distributions = language.next_log_probabilities(sentences)
        return distributions[torch.arange(distributions.shape[1]) <= sentences.lengths[:, None]]

    def outcomes(self, scores: Float[Tensor, "m v"]) -> Float[Tensor, "m k"]:
        """See `ExactObjective.outcomes`: the words, then [CLS]."""
        return torch.cat([scores[:, FIRST_WORD:], scores[:, CLS : CLS + 1]], dim=1)

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """Scores of the model's v tokens, including special tokens; see `causal_logits`."""
        return causal_logits(model, batch)
