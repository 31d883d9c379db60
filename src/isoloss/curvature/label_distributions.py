"""Whose labels a loss is taken under: the data's, or the exact distribution of a known language."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective

LabelDistribution = Callable[[Batch], Tensor]
"""The probabilities [m, v] of each prediction's true labels; see `data_labels` for the data's own."""


def data_labels(batch: Batch, vocabulary: int) -> Float[Tensor, "m v"]:
    """All probability on the label that the data has."""
    return nn.functional.one_hot(batch.targets, vocabulary).double()


def distribution_over(distribution: LabelDistribution, batch: Batch, vocabulary: int) -> Float[Tensor, "m v"]:
    """Probabilities over a model's `vocabulary`: 0 for tokens after those that the language knows."""
    known = distribution(batch)
    return nn.functional.pad(known, (0, vocabulary - known.shape[1]))


def sentence_weights(batch: Batch) -> Float[Tensor, " m"]:
    """1 / (n M_i) for each prediction of sentence i: the sentence-averaged loss is so weighted."""
    counts = torch.bincount(batch.rows, minlength=len(batch))
    return 1 / (len(batch) * counts[batch.rows].double())


def mean_loss(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    first_sentence: int,
    distribution: LabelDistribution | None,
) -> Float[Tensor, ""]:
    """The batch's sentence-averaged cross entropy in nats, under the data's labels or under `distribution`.

    Raises BadInput where a logit is not finite, naming the sentence.
    """
    logits = objective.logits(model, batch)
    refuse_non_finite(logits.detach(), batch, first_sentence)
    targets = (
        batch.targets
        if distribution is None
        else distribution_over(distribution, batch, logits.shape[1]).to(logits)
    )
    losses = nn.functional.cross_entropy(logits, targets, reduction="none")
    return (losses * sentence_weights(batch).to(losses)).sum()


def label_surprise(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    first_sentence: int,
    distribution: LabelDistribution | None,
) -> Float[Tensor, ""]:
    """Σ_j w_j Σ_k (p_jk - q_jk) z_jk with p and q held constant: its Hessian is the loss's less the Fisher's.

    z are the logits, p their softmax, q the labels' distribution, w `sentence_weights`. By the chain rule
    ∇²L = Σ_j w_j [J_jᵀ (diag p_j - p_j p_jᵀ) J_j + Σ_k (p_jk - q_jk) ∇²z_jk], and the first term, the
    Gauss-Newton matrix, is the Fisher information whatever the labels are.

    Raises BadInput where a logit is not finite, naming the sentence.
    """
    logits = objective.logits(model, batch)
    scores = logits.detach()
    refuse_non_finite(scores, batch, first_sentence)
    q = (
        data_labels(batch, scores.shape[1])
        if distribution is None
        else distribution_over(distribution, batch, scores.shape[1])
    )
    coefficients = (scores.double().softmax(dim=1) - q.to(scores.device)) * sentence_weights(batch)[:, None]
    return (coefficients.to(logits) * logits).sum()


class NonFiniteScores(BadInput):
    """A model's scores are NaN or infinite; `sentence` is the first such sentence's number, from 1."""

    def __init__(self, sentence: int, called: str) -> None:
        self.sentence = sentence
        super().__init__(
            f"the model's scores for {called} are not finite; its weights have diverged, or the precision "
            "is too low: measure an earlier checkpoint, or in float32"
        )


def refuse_non_finite(logits: Float[Tensor, "m v"], batch: Batch, first_sentence: int) -> None:
    """Raise NonFiniteScores naming the first sentence with a logit that is NaN or infinite, from 1."""
    # A sum with a number in it that is not finite is not finite, and takes one reading.
    sums = logits.sum(dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))
    bad = ~sums.isfinite()
    if bad.any():
        sentence = first_sentence + int(batch.rows[bad][0]) + 1
        raise NonFiniteScores(sentence, f"sentence {sentence}")
