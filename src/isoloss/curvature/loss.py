"""The loss of sentences, under labels drawn or their distributions, its rise, and its Hessian."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import (
    hessian_quadratic_forms,
    hessian_vector_product,
    inner_products_by_group,
    trainable_parameters,
    unflattened,
)
from isoloss.curvature.stopping import refuse_too_few
from isoloss.errors import BadInput
from isoloss.objectives.batch import (
    Batch,
    NonFiniteScores,
    Objective,
    refuse_non_finite,
    sentence_means,
    split_sentences,
)
from isoloss.objectives.evaluation import FORWARD_MEMORY_BYTES, device_of, displaced, rows_at_once
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, cluster_values, mean_over_members, sample_mean

BLOCKS = 64
"""Clusters that are enough for an error bar: its own relative error is then 1 / √(2 · 63), about 9 %."""
LARGEST = 8
"""Sentences that a block has at most, so that differentiating it twice takes little memory."""
AT_ONCE = 32
"""Sentences that are differentiated at once where no error bar is needed, which bounds the memory."""


def label_distributions(batch: Batch, vocabulary: int) -> Float[Tensor, "m v"]:
    """The batch's soft targets, or all probability on its targets, over a model's `vocabulary`."""
    soft = batch.soft_targets
    if soft is None:
        return nn.functional.one_hot(batch.targets, vocabulary).double()
    return nn.functional.pad(soft, (0, vocabulary - soft.shape[1]))


def sentence_weights(batch: Batch) -> Float[Tensor, " m"]:
    """1 / (n M_i) for each prediction of sentence i: the weights of the sentence-averaged loss."""
    counts = torch.bincount(batch.rows, minlength=len(batch))
    return 1 / (len(batch) * counts[batch.rows].double())


@dataclass(frozen=True)
class BatchLoss:
    """A model's cross entropy on a batch in nats, under its soft targets if it has any, or its targets.

    Every sentence has equal weight. All methods raise NonFiniteScores where a logit is not finite, and name
    the sentence by its number; that of the batch's first sentence is `first_sentence`.
    """

    model: nn.Module
    objective: Objective
    batch: Batch
    first_sentence: int = 0

    def of_predictions(self) -> Float[Tensor, " m"]:
        """The cross entropy of each prediction, in float32 also of a model in half precision."""
        logits = self.objective.logits(self.model, self.batch)
        refuse_non_finite(logits.detach(), self.batch, self.first_sentence)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        targets = self.batch.targets
        if self.batch.soft_targets is not None:
            targets = label_distributions(self.batch, logits.shape[1]).to(logits)
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
        parts = self.split(at_once)
        return torch.cat([sentence_means(part.of_predictions().double(), part.batch) for part in parts])

    def label_surprise(self) -> Float[Tensor, ""]:
        """Σ_j w_j Σ_k (p_jk - q_jk) z_jk, p and q held constant: its Hessian is the loss's less the Fisher's.

        z are the logits, p their softmax, q the labels' distribution, w `sentence_weights`. By the chain rule
        ∇²L = Σ_j w_j [J_jᵀ (diag p_j - p_j p_jᵀ) J_j + Σ_k (p_jk - q_jk) ∇²z_jk], and the first term, the
        Gauss-Newton matrix, is the Fisher information whatever the labels are.
        """
        logits = self.objective.logits(self.model, self.batch)
        scores = logits.detach()
        refuse_non_finite(scores, self.batch, self.first_sentence)
        surprise = scores.double().softmax(dim=1) - label_distributions(self.batch, scores.shape[1])
        coefficients = surprise * sentence_weights(self.batch)[:, None]
        return (coefficients.to(logits) * logits).sum()

    def split(self, most: int) -> "list[BatchLoss]":
        """The losses of parts of at most so many sentences, as equal as can be."""
        parts = in_parts([self.batch], most)
        return losses_of(self.model, parts, self.objective, self.first_sentence)


def losses_of(
    model: nn.Module, parts: Sequence[Batch], objective: Objective, first_sentence: int = 0
) -> list[BatchLoss]:
    """The loss on each of the parts, on the model's device; sentences are numbered on from part to part."""
    firsts = itertools.accumulate(map(len, parts), initial=first_sentence)
    placed = [part.to(device_of(model)) for part in parts]
    return [BatchLoss(model, objective, part, first) for part, first in zip(placed, firsts, strict=False)]


def in_parts(batches: Iterable[Batch], most: int = AT_ONCE) -> list[Batch]:
    """All sentences of the batches, in order, in parts of one batch each, of at most `most` sentences."""
    some = filter(len, batches)
    return [part for batch in some for part in split_sentences(batch, -(-len(batch) // most))]


def sentence_blocks(batches: Iterable[Batch], fewest: int = 2, largest: int = LARGEST) -> list[Batch]:
    """All sentences of the batches, in order, in at least `BLOCKS` blocks, as equal as the batches allow.

    If there are fewer sentences than `BLOCKS`, each is a block. No block has more than `largest` sentences or
    spans two batches. Raises BadInput for fewer than `fewest` sentences.
    """
    every = list(batches)
    n = sum(map(len, every))
    refuse_too_few(n, fewest)
    return in_parts(every, max(1, min(largest, n // BLOCKS)))


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


AT_ONCE_THRICE = AT_ONCE // 2
"""Sentences that are differentiated three times at once, which takes about as much memory."""


@dataclass(frozen=True)
class LossHessian:
    """∇²L of the sentence-averaged loss on all sentences of `losses`, at the model's trainable parameters.

    Flat vectors have the parameters end to end, in float64. The model must be in evaluation mode. Products
    raise BadInput where a logit is not finite.
    """

    losses: Sequence[BatchLoss]

    @staticmethod
    def at_once(model: nn.Module, batches: Iterable[Batch], objective: Objective) -> "LossHessian":
        """In parts of up to `AT_ONCE` sentences, for fast products."""
        return LossHessian(losses_of(model, in_parts(batches), objective))

    @staticmethod
    def in_blocks(model: nn.Module, batches: Iterable[Batch], objective: Objective) -> "LossHessian":
        """In `sentence_blocks`, for error bars. Raises BadInput for fewer than two sentences."""
        return LossHessian(losses_of(model, sentence_blocks(batches), objective))

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Those that it is differentiated by, by name."""
        return trainable_parameters(self.losses[0].model)

    @property
    def sentences(self) -> int:
        """Of all parts."""
        return sum(len(loss.batch) for loss in self.losses)

    def multiply(self, flat: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        """∇²L v for a flat vector, summed in float64."""
        vector, total = unflattened(flat, self.parameters), torch.zeros_like(flat)
        for loss in self.losses:
            product = hessian_vector_product(loss.mean, self.parameters, vector)
            total += flattened(product) * (len(loss.batch) / self.sentences)
        return total

    def quadratic_forms(
        self, vectors: Sequence[Float[Tensor, " P"]]
    ) -> list[tuple[Float[Tensor, " P"], Float[Tensor, " n"]]]:
        """Of each flat vector v, ∇²L v as `multiply`, and vᵀ∇²L_i v of every sentence's loss, float64."""
        named = [unflattened(each, self.parameters) for each in vectors]
        totals, forms = [torch.zeros_like(each) for each in vectors], [list[Tensor]() for _ in vectors]
        for piece in (piece for loss in self.losses for piece in loss.split(AT_ONCE_THRICE)):
            for place, (product, of_piece) in enumerate(
                hessian_quadratic_forms(piece.of_sentences, self.parameters, named)
            ):
                totals[place] += flattened(product) / self.sentences
                forms[place].append(of_piece.double().cpu())
        return [(total, torch.cat(of_each)) for total, of_each in zip(totals, forms, strict=True)]

    def curvature(self, vector: Mapping[str, Tensor], progress: Progress = silent) -> "Curvature":
        """vᵀ∇²L v with its errors over parts, v held fixed; one product with every part."""
        by_part = []
        for done, loss in enumerate(self.losses):
            progress("curvature along a direction", done, len(self.losses))
            product = hessian_vector_product(loss.mean, self.parameters, vector)
            by_part.append(inner_products_by_group(vector, product))
        sizes = torch.tensor([len(loss.batch) for loss in self.losses])
        groups = {
            name: mean_over_members(torch.tensor([b[name] for b in by_part], dtype=torch.float64), sizes)
            for name in by_part[0]
        }
        forms = torch.tensor([sum(b.values()) for b in by_part], dtype=torch.float64)
        return Curvature(cluster_values(forms, sizes), groups)


@dataclass(frozen=True)
class Curvature:
    """vᵀHv in total and by group, whose parts v_g·(Hv)_g add up to the total.

    `by_part` are values of the parts, whose mean and error are those of the total; see `cluster_values`.
    """

    by_part: Float[Tensor, " k"]
    groups: dict[str, Estimate]

    @property
    def whole(self) -> Estimate:
        """The total, with its standard error over parts."""
        return sample_mean(self.by_part)


def flattened(vector: Mapping[str, Tensor]) -> Float[Tensor, " P"]:
    """Tensors end to end, in float64; the inverse of `unflattened`.

    >>> flattened({"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.tensor([3.0])})
    tensor([1., 2., 3.], dtype=torch.float64)
    """
    device = next(iter(vector.values())).device
    sizes = [each.numel() for each in vector.values()]
    flat = torch.empty(sum(sizes), dtype=torch.float64, device=device)
    pieces = torch.split(flat, sizes)
    for piece, values in zip(pieces, vector.values(), strict=True):
        piece.copy_(values.flatten())  # without a copy of all of them in float64
    return flat
