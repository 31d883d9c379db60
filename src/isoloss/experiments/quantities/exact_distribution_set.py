"""Sentences on which a loss is differentiated or displaced: its labels are the exact distribution's."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.languages.sentences import PADDING, Sentences
from isoloss.measurements.flatness_records import FlatnessSet
from isoloss.objectives.batch import Batch
from isoloss.objectives.pretraining_objective import ExactObjective, PretrainingObjective
from isoloss.objectives.tokens import FIRST_WORD


@dataclass(frozen=True)
class ExactLabelDistribution:
    """The exact distribution of each prediction of a batch that `objective` made of the language's sentences.

    Hand it as `distribution` to `hessian_trace` and its like. Sentences must have one masked word at most,
    since the masked distribution is that of one word given all others.
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
        # `every_prediction` is in sentence and then position order, as the distributions are.
        sentence_of = torch.arange(len(sentences)).repeat_interleave(counts)
        places = {
            key: place
            for place, key in enumerate(zip(sentence_of.tolist(), every.positions.tolist(), strict=True))
        }
        chosen = [places[key] for key in zip(rows.tolist(), positions.tolist(), strict=True)]
        distribution = self.objective.log_probabilities(self.language, sentences)[chosen].exp()
        whole = torch.zeros(len(chosen), self.tokens, dtype=torch.float64)
        # Which token stands for which outcome, read off by handing over the tokens' own numbers.
        outcomes = self.objective.outcomes(torch.arange(self.tokens).double().expand(len(chosen), -1)).long()
        return whole.scatter(1, outcomes, distribution).to(batch.rows.device)


def _sentences(ids: Tensor, batch: Batch) -> Sentences:
    """The sentences with the hidden words put back; positions whose own token is shown are left alone."""
    masked = ids[batch.rows.cpu(), batch.positions.cpu()] < FIRST_WORD
    words = masked & (batch.positions.cpu() > 0)
    ids[batch.rows.cpu()[words], batch.positions.cpu()[words]] = batch.targets.cpu()[words]
    real = batch.attention_mask.cpu()[:, 1:]
    return Sentences((ids[:, 1:] - FIRST_WORD).where(real, PADDING), real.sum(dim=1))


@dataclass(frozen=True)
class ExactDistributionSet:
    """One batch with the exact distribution of its predictions: no noise of labels."""

    batch: Batch
    distribution: ExactLabelDistribution
    seed: int

    @staticmethod
    def draw(
        language: Language, objective: PretrainingObjective, sentences: int, seed: int
    ) -> "ExactDistributionSet":
        """Draw as `FlatnessSet` does. Raises BadInput for an objective whose distribution is not known."""
        drawn = FlatnessSet.draw(language, objective, sentences, seed)
        return ExactDistributionSet.of(drawn.batch, language, objective, seed)

    @staticmethod
    def of(
        batch: Batch, language: Language, objective: PretrainingObjective, seed: int
    ) -> "ExactDistributionSet":
        """A batch of the language's sentences, drawn before; raises BadInput as `draw` does."""
        if not isinstance(objective, ExactObjective):
            raise BadInput(
                f"the exact distribution of {objective} is not known, which this measure of flatness needs; "
                "measure it on masked words or next words"
            )
        tokens = len(language.vocabulary) + FIRST_WORD
        return ExactDistributionSet(batch, ExactLabelDistribution(language, objective, tokens), seed)
