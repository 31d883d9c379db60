"""The Hessian of the loss on many sentences, by its products with vectors alone."""

from collections.abc import Mapping, Sequence
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
from isoloss.curvature.loss import AT_ONCE, BatchLoss, LabelDistribution, in_parts, losses_of, sentence_blocks
from isoloss.objectives.batch import Batch, Objective
from isoloss.results.estimate import Estimate, cluster_values, mean_over_members, mean_over_sentences

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
    def at_once(
        model: nn.Module,
        batches: Sequence[Batch],
        objective: Objective,
        distribution: LabelDistribution | None = None,
    ) -> "LossHessian":
        """In parts of up to `AT_ONCE` sentences, for fast products."""
        return LossHessian(losses_of(model, in_parts(batches), objective, distribution))

    @staticmethod
    def in_blocks(
        model: nn.Module,
        batches: Sequence[Batch],
        objective: Objective,
        distribution: LabelDistribution | None = None,
    ) -> "LossHessian":
        """In `sentence_blocks`, for error bars. Raises BadInput for fewer than two sentences."""
        return LossHessian(losses_of(model, sentence_blocks(batches), objective, distribution))

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

    def curvature(self, vector: Mapping[str, Tensor]) -> "Curvature":
        """vᵀ∇²L v with its errors over parts, v held fixed; one product with every part."""
        total, by_part = torch.zeros_like(flattened(vector)), []
        for loss in self.losses:
            product = hessian_vector_product(loss.mean, self.parameters, vector)
            by_part.append(inner_products_by_group(vector, product))
            total += flattened(product) * (len(loss.batch) / self.sentences)
        sizes = torch.tensor([len(loss.batch) for loss in self.losses])
        groups = {
            name: mean_over_members(torch.tensor([b[name] for b in by_part], dtype=torch.float64), sizes)
            for name in by_part[0]
        }
        forms = torch.tensor([sum(b.values()) for b in by_part], dtype=torch.float64)
        return Curvature(cluster_values(forms, sizes), groups, total)


@dataclass(frozen=True)
class Curvature:
    """vᵀHv in total and by group, whose parts v_g·(Hv)_g add up to the total; `product` is Hv, flat.

    `by_part` are values of the parts, whose mean and error are those of the total; see `cluster_values`.
    """

    by_part: Float[Tensor, " k"]
    groups: dict[str, Estimate]
    product: Float[Tensor, " P"]

    @property
    def whole(self) -> Estimate:
        """The total, with its standard error over parts."""
        return mean_over_sentences(self.by_part)


def flattened(vector: Mapping[str, Tensor]) -> Float[Tensor, " P"]:
    """Tensors end to end, in float64; the inverse of `unflattened`.

    >>> flattened({"weight": torch.tensor([[1.0, 2.0]]), "bias": torch.tensor([3.0])})
    tensor([1., 2., 3.], dtype=torch.float64)
    """
    return torch.cat([values.flatten().double() for values in vector.values()])
