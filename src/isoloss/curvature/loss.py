"""The loss of sentences, under the data's labels or an exact distribution, and its rise near the weights."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.stopping import refuse_too_few
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, NonFiniteScores, Objective, refuse_non_finite, split_sentences
from isoloss.objectives.evaluation import FORWARD_MEMORY_BYTES, displaced, rows_at_once

BLOCKS = 64
"""Clusters that are enough for an error bar: its own relative error is then 1 / √(2 · 63), about 9 %."""
LARGEST = 8
"""Sentences that a block has at most, so that differentiating it twice takes little memory."""

LabelDistribution = Callable[[Batch], Tensor]
"""The probabilities [m, v] of each prediction's true labels; see `data_labels` for the data's own."""


def data_labels(batch: Batch, vocabulary: int) -> Float[Tensor, "m v"]:
    """The distribution that puts all probability on the data's label."""
    return nn.functional.one_hot(batch.targets, vocabulary).double()


def distribution_over(distribution: LabelDistribution, batch: Batch, vocabulary: int) -> Float[Tensor, "m v"]:
    """Probabilities over a model's `vocabulary`, with 0 for tokens beyond the language's own."""
    known = distribution(batch)
    return nn.functional.pad(known, (0, vocabulary - known.shape[1]))


def sentence_weights(batch: Batch) -> Float[Tensor, " m"]:
    """1 / (n M_i) for each prediction of sentence i: the weights of the sentence-averaged loss."""
    counts = torch.bincount(batch.rows, minlength=len(batch))
    return 1 / (len(batch) * counts[batch.rows].double())


def prediction_losses(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    first_sentence: int,
    distribution: LabelDistribution | None,
) -> Float[Tensor, " m"]:
    """Each prediction's cross entropy in nats, under the data's labels or under `distribution`.

    Raises NonFiniteScores where a logit is not finite, naming the sentence.
    """
    logits = objective.logits(model, batch)
    refuse_non_finite(logits.detach(), batch, first_sentence)
    targets = batch.targets
    if distribution is not None:
        targets = distribution_over(distribution, batch, logits.shape[1]).to(logits)
    return nn.functional.cross_entropy(logits, targets, reduction="none")


def mean_loss(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    first_sentence: int,
    distribution: LabelDistribution | None,
) -> Float[Tensor, ""]:
    """The batch's sentence-averaged cross entropy in nats; see `prediction_losses`."""
    losses = prediction_losses(model, objective, batch, first_sentence, distribution)
    return (losses * sentence_weights(batch).to(losses)).sum()


def mean_losses(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    first_sentence: int,
    distribution: LabelDistribution | None,
) -> Float[Tensor, " n"]:
    """Each sentence's mean of `prediction_losses`, from a single pass; their mean is `mean_loss`."""
    losses = prediction_losses(model, objective, batch, first_sentence, distribution)
    shares = losses * (sentence_weights(batch) * len(batch)).to(losses)
    return losses.new_zeros(len(batch)).index_add(0, batch.rows, shares)


@torch.no_grad()
def sentence_losses(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    first_sentence: int,
    distribution: LabelDistribution | None,
) -> Float[Tensor, " n"]:
    """Each sentence's mean of `prediction_losses`, float64; their mean is `mean_loss`.

    Runs as many sentences at once as fit into `FORWARD_MEMORY_BYTES`.
    """
    at_once = rows_at_once(model, batch.input_ids.shape[1], FORWARD_MEMORY_BYTES)
    losses: list[Tensor] = []
    for part in split_sentences(batch, -(-len(batch) // at_once)):
        first = first_sentence + sum(map(len, losses))
        of_predictions = prediction_losses(model, objective, part, first, distribution).double()
        sums = torch.zeros(len(part), dtype=torch.float64, device=of_predictions.device)
        sums.index_add_(0, part.rows, of_predictions)
        losses.append(sums / torch.bincount(part.rows, minlength=len(part)))
    return torch.cat(losses)


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


def sentence_blocks(batches: Sequence[Batch], fewest: int = 2, largest: int = LARGEST) -> list[Batch]:
    """All sentences of the batches, in order, in at least `BLOCKS` blocks, as equal as the batches allow.

    If there are fewer sentences than `BLOCKS`, each is a block. No block has more than `largest` sentences or
    spans two batches. Raises BadInput for fewer than `fewest` sentences.
    """
    n = sum(map(len, batches))
    refuse_too_few(n, fewest)
    size = max(1, min(largest, n // BLOCKS))
    blocks = []
    for batch in batches:
        blocks += split_sentences(batch, -(-len(batch) // size))
    return blocks


@dataclass(frozen=True)
class LossAtRest:
    """A batch's losses at the current weights, the reference for losses elsewhere.

    `first_sentence` is the number of the batch's first sentence, for error messages. The model must be in
    evaluation mode.
    """

    model: nn.Module
    objective: Objective
    batch: Batch
    first_sentence: int
    distribution: LabelDistribution | None
    losses: Float[Tensor, " n"]

    @staticmethod
    def of(
        model: nn.Module,
        objective: Objective,
        batch: Batch,
        first_sentence: int,
        distribution: LabelDistribution | None,
    ) -> "LossAtRest":
        """Measure the losses. Raises BadInput as `sentence_losses` does."""
        losses = sentence_losses(model, objective, batch, first_sentence, distribution)
        return LossAtRest(model, objective, batch, first_sentence, distribution, losses)

    def rise(self, direction: Mapping[str, Tensor], times: float) -> Float[Tensor, " n"]:
        """Each sentence's loss at θ + `times` · `direction` minus its loss at θ, on the CPU.

        `direction` has a tensor for each trainable parameter, by name. θ is restored bit for bit from a copy.
        Raises BadInput if a logit is not finite at the new weights.
        """
        weights = trainable_parameters(self.model)
        try:
            with displaced(list(weights.values()), [direction[name] for name in weights], times):
                moved = sentence_losses(
                    self.model, self.objective, self.batch, self.first_sentence, self.distribution
                )
        except NonFiniteScores as error:
            raise BadInput(
                f"the weights moved by {times:g} times the direction give scores that are not finite; "
                "move them less"
            ) from error
        return (moved - self.losses).cpu()


def refuse_unusable_strengths(strengths: tuple[float, ...], called: str) -> None:
    """Raise BadInput unless there is at least one strength, and all are positive, finite and distinct."""
    if not strengths or len(set(strengths)) < len(strengths):
        raise BadInput(f"give at least one of the {called}, each once, not {strengths}")
    if not all(0 < strength < float("inf") for strength in strengths):
        raise BadInput(f"the {called} must be positive numbers, not {strengths}")
