"""The exact distribution of a batch's labels, for estimators that would else have their sampling noise."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.languages.language import Language
from isoloss.languages.sentences import PADDING, Sentences
from isoloss.objectives.batch import Batch, ExactObjective
from isoloss.objectives.tokens import FIRST_WORD


@dataclass(frozen=True)
class ExactLabelDistribution:
    """The exact distribution of each prediction of a batch that `objective` made of the language's sentences.

    Pass it as `distribution` to `hessian_trace` and similar estimators. Sentences must have at most one
    masked word, since the masked distribution is that of one word given all others.
    """

    language: Language
    objective: ExactObjective
    tokens: int

    def __call__(self, batch: Batch) -> Float[Tensor, "m v"]:
        """Probabilities over the model's `tokens` tokens, float64, on the batch's device."""
        ids = batch.input_ids.cpu().clone()
        rows, positions = batch.rows.cpu(), batch.positions.cpu()
        sentences = _sentences(ids, batch)
        every = self.objective.every_prediction(sentences)
        counts = self.objective.predictions(sentences)
        # `every_prediction` is ordered by sentence and then position, as the distributions are.
        sentence_of = torch.arange(len(sentences)).repeat_interleave(counts)
        places = {
            key: place
            for place, key in enumerate(zip(sentence_of.tolist(), every.positions.tolist(), strict=True))
        }
        chosen = [places[key] for key in zip(rows.tolist(), positions.tolist(), strict=True)]
        distribution = self.objective.log_probabilities(self.language, sentences)[chosen].exp()
        whole = torch.zeros(len(chosen), self.tokens, dtype=torch.float64)
        # Which token stands for which outcome, found by passing in the tokens' numbers.
        outcomes = self.objective.outcomes(torch.arange(self.tokens).double().expand(len(chosen), -1)).long()
        return whole.scatter(1, outcomes, distribution).to(batch.rows.device)


def _sentences(ids: Tensor, batch: Batch) -> Sentences:
    """The sentences with the masked words restored; positions that show their own token are unchanged."""
    masked = ids[batch.rows.cpu(), batch.positions.cpu()] < FIRST_WORD
    words = masked & (batch.positions.cpu() > 0)
    ids[batch.rows.cpu()[words], batch.positions.cpu()[words]] = batch.targets.cpu()[words]
    real = batch.attention_mask.cpu()[:, 1:]
    return Sentences((ids[:, 1:] - FIRST_WORD).where(real, PADDING), real.sum(dim=1))
