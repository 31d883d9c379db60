"""The labels of sentences under the exact distribution of the language that they are from, without noise."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.languages.sentences import PADDING, Sentences
from isoloss.measurements.fixed_sentences import FixedSentences, OnSentences, draw_sentences
from isoloss.measurements.quantity import AnySource, Subject
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.pretraining_objective import ExactObjective, PretrainingObjective
from isoloss.objectives.tokens import FIRST_WORD
from isoloss.progress import Progress


def draw_labelled_sentences(
    quantity: OnSentences,
    source: Language | PackedCorpus,
    objective: PretrainingObjective,
    progress: Progress,
) -> FixedSentences:
    """As `draw_sentences`, of a quantity that needs `exact_labels`; raises BadInput as these do."""
    _ = exact_labels(source, objective)
    return draw_sentences(quantity, source, objective, progress)


def labels_of(subject: Subject[AnySource]) -> "ExactLabelDistribution | None":
    """The `exact_labels` of what the model was trained on."""
    return exact_labels(subject.source, subject.objective)


def exact_labels(source: AnySource, objective: Objective) -> "ExactLabelDistribution | None":
    """The exact distribution that labels have, without noise; None, for the data's own, of real text.

    Raises BadInput for a language and an objective whose distribution is not known.
    """
    if source is None or isinstance(source, PackedCorpus):
        return None
    if not isinstance(objective, ExactObjective):
        raise BadInput(
            f"the exact distribution of {objective} is not known, which this measure of flatness needs; "
            "measure it on masked words or next words"
        )
    return ExactLabelDistribution(source, objective, len(source.vocabulary) + FIRST_WORD)


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
