"""The loss of sentences, under the data's labels or an exact distribution, and its rise near the weights."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import trainable_parameters
from isoloss.curvature.stopping import refuse_too_few
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, NonFiniteScores, Objective, refuse_non_finite, split_sentences
from isoloss.objectives.evaluation import FORWARD_MEMORY_BYTES, device_of, displaced, rows_at_once

BLOCKS = 64
"""Clusters that are enough for an error bar: its own relative error is then 1 / √(2 · 63), about 9 %."""
LARGEST = 8
"""Sentences that a block has at most, so that differentiating it twice takes little memory."""
AT_ONCE = 32
"""Sentences that are differentiated at once where no error bar is needed, which bounds the memory."""

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


@dataclass(frozen=True)
class BatchLoss:
    """A model's cross entropy on a batch in nats, under the data's labels or under `distribution`.

    Every sentence has equal weight. All methods raise NonFiniteScores where a logit is not finite, and name
    the sentence by its number; that of the batch's first sentence is `first_sentence`.

    >>> class Uniform:
    ...     def logits(self, model, batch):
    ...         return torch.zeros(len(batch.targets), 4)
    >>> ids, place = torch.tensor([[1, 3]]), torch.tensor([0])
    >>> batch = Batch(ids, ids > 0, rows=place, positions=place, targets=ids[0, :1])
    >>> round(float(BatchLoss(nn.Module(), Uniform(), batch).mean()), 4)  # log 4
    1.3863
    """

    model: nn.Module
    objective: Objective
    batch: Batch
    first_sentence: int = 0
    distribution: LabelDistribution | None = None

    def of_predictions(self) -> Float[Tensor, " m"]:
        """The cross entropy of each prediction."""
        logits = self.objective.logits(self.model, self.batch)
        refuse_non_finite(logits.detach(), self.batch, self.first_sentence)
        targets = self.batch.targets
        if self.distribution is not None:
            targets = distribution_over(self.distribution, self.batch, logits.shape[1]).to(logits)
        return nn.functional.cross_entropy(logits, targets, reduction="none")

    def mean(self) -> Float[Tensor, ""]:
        """The mean over sentences of `of_sentences`."""
        losses = self.of_predictions()
        return (losses * sentence_weights(self.batch).to(losses)).sum()

    def of_sentences(self) -> Float[Tensor, " n"]:
        """Each sentence's mean over its predictions, from one pass through the model."""
        losses, n = self.of_predictions(), len(self.batch)
        shares = losses * (sentence_weights(self.batch) * n).to(losses)
        return losses.new_zeros(n).index_add(0, self.batch.rows, shares)

    @torch.no_grad()
    def values(self) -> Float[Tensor, " n"]:
        """`of_sentences` without gradients, in float64, as many at once as fit `FORWARD_MEMORY_BYTES`."""
        at_once = rows_at_once(self.model, self.batch.input_ids.shape[1], FORWARD_MEMORY_BYTES)
        losses: list[Tensor] = []
        for part in self.split(at_once):
            of_predictions, rows = part.of_predictions().double(), part.batch.rows
            sums = of_predictions.new_zeros(len(part.batch)).index_add_(0, rows, of_predictions)
            losses.append(sums / torch.bincount(rows, minlength=len(part.batch)))
        return torch.cat(losses)

    def label_surprise(self) -> Float[Tensor, ""]:
        """Σ_j w_j Σ_k (p_jk - q_jk) z_jk, p and q held constant: its Hessian is the loss's less the Fisher's.

        z are the logits, p their softmax, q the labels' distribution, w `sentence_weights`. By the chain rule
        ∇²L = Σ_j w_j [J_jᵀ (diag p_j - p_j p_jᵀ) J_j + Σ_k (p_jk - q_jk) ∇²z_jk], and the first term, the
        Gauss-Newton matrix, is the Fisher information whatever the labels are.
        """
        logits = self.objective.logits(self.model, self.batch)
        scores = logits.detach()
        refuse_non_finite(scores, self.batch, self.first_sentence)
        q = (
            data_labels(self.batch, scores.shape[1])
            if self.distribution is None
            else distribution_over(self.distribution, self.batch, scores.shape[1])
        )
        weights = sentence_weights(self.batch)[:, None]
        coefficients = (scores.double().softmax(dim=1) - q.to(scores.device)) * weights
        return (coefficients.to(logits) * logits).sum()

    def split(self, most: int) -> "list[BatchLoss]":
        """The losses of parts of at most so many sentences, as equal as can be."""
        parts = in_parts([self.batch], most)
        return losses_of(self.model, parts, self.objective, self.distribution, self.first_sentence)


def losses_of(
    model: nn.Module,
    parts: Sequence[Batch],
    objective: Objective,
    distribution: LabelDistribution | None = None,
    first_sentence: int = 0,
) -> list[BatchLoss]:
    """The loss on each of the parts, on the model's device; sentences are numbered on from part to part."""
    firsts = itertools.accumulate(map(len, parts), initial=first_sentence)
    placed = [part.to(device_of(model)) for part in parts]
    return [
        BatchLoss(model, objective, part, first, distribution)
        for part, first in zip(placed, firsts, strict=False)
    ]


def in_parts(batches: Sequence[Batch], most: int = AT_ONCE) -> list[Batch]:
    """All sentences of the batches, in order, in parts of one batch each, of at most `most` sentences."""
    return [part for batch in batches for part in split_sentences(batch, -(-len(batch) // most))]


def sentence_blocks(batches: Sequence[Batch], fewest: int = 2, largest: int = LARGEST) -> list[Batch]:
    """All sentences of the batches, in order, in at least `BLOCKS` blocks, as equal as the batches allow.

    If there are fewer sentences than `BLOCKS`, each is a block. No block has more than `largest` sentences or
    spans two batches. Raises BadInput for fewer than `fewest` sentences.
    """
    n = sum(map(len, batches))
    refuse_too_few(n, fewest)
    return in_parts(batches, max(1, min(largest, n // BLOCKS)))


@dataclass(frozen=True)
class LossAtRest:
    """A loss and its `values` at the current weights, which those elsewhere are held against.

    The model must be in evaluation mode.
    """

    loss: BatchLoss
    values: Float[Tensor, " n"]

    @staticmethod
    def of(loss: BatchLoss) -> "LossAtRest":
        """Measure the values. Raises NonFiniteScores as `BatchLoss` does."""
        return LossAtRest(loss, loss.values())

    def rise(self, direction: Mapping[str, Tensor], times: float) -> Float[Tensor, " n"]:
        """Each sentence's loss at θ + `times` · `direction` minus its loss at θ, on the CPU.

        `direction` has a tensor for each trainable parameter, by name. θ is restored bit for bit from a copy.
        Raises BadInput if a logit is not finite at the new weights.
        """
        weights = trainable_parameters(self.loss.model)
        try:
            with displaced(list(weights.values()), [direction[name] for name in weights], times):
                moved = self.loss.values()
        except NonFiniteScores as error:
            raise BadInput(
                f"the weights moved by {times:g} times the direction give scores that are not finite; "
                "move them less"
            ) from error
        return (moved - self.values).cpu()


def refuse_unusable_strengths(strengths: tuple[float, ...], called: str) -> None:
    """Raise BadInput unless there is at least one strength, and all are positive, finite and distinct."""
    if not strengths or len(set(strengths)) < len(strengths):
        raise BadInput(f"give at least one of the {called}, each once, not {strengths}")
    if not all(0 < strength < float("inf") for strength in strengths):
        raise BadInput(f"the {called} must be positive numbers, not {strengths}")
