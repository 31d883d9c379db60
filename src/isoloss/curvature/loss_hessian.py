"""The Hessian of the loss on many sentences, by its products with vectors alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

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
from isoloss.curvature.loss import LabelDistribution, mean_loss, mean_losses, sentence_blocks
from isoloss.objectives.batch import Batch, Objective, split_sentences
from isoloss.objectives.evaluation import device_of
from isoloss.results.estimate import Estimate, cluster_values, mean_over_members, mean_over_sentences

AT_ONCE = 32
"""Sentences that are differentiated twice at once, while no error bar is needed."""
AT_ONCE_THRICE = AT_ONCE // 2
"""Sentences that are differentiated three times at once, which takes about as much memory."""


@dataclass(frozen=True)
class LossHessian:
    """∇²L of the sentence-averaged loss on all sentences of `parts`, at the model's trainable parameters.

    Flat vectors have the parameters end to end, in float64. Labels are the data's, or those of
    `distribution`. The model must be in evaluation mode. Products raise BadInput where a logit is not finite.
    """

    model: nn.Module
    objective: Objective
    parts: Sequence[Batch]
    distribution: LabelDistribution | None = None

    @staticmethod
    def at_once(
        model: nn.Module,
        batches: Sequence[Batch],
        objective: Objective,
        distribution: LabelDistribution | None = None,
    ) -> "LossHessian":
        """In parts of up to `AT_ONCE` sentences, for fast products."""
        parts = [part for batch in batches for part in split_sentences(batch, -(-len(batch) // AT_ONCE))]
        return LossHessian(model, objective, parts, distribution)

    @staticmethod
    def in_blocks(
        model: nn.Module,
        batches: Sequence[Batch],
        objective: Objective,
        distribution: LabelDistribution | None = None,
    ) -> "LossHessian":
        """In `sentence_blocks`, for error bars. Raises BadInput for fewer than two sentences."""
        return LossHessian(model, objective, sentence_blocks(batches), distribution)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Those that it is differentiated by, by name."""
        return trainable_parameters(self.model)

    @property
    def sentences(self) -> int:
        """Of all parts."""
        return sum(map(len, self.parts))

    def of_part(self, number: int, vector: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """∇²L_b v of the mean loss over one part's sentences, by parameter."""
        first = sum(map(len, self.parts[:number]))
        part = self.parts[number].to(device_of(self.model))
        return hessian_vector_product(
            lambda: mean_loss(self.model, self.objective, part, first, self.distribution),
            self.parameters,
            vector,
        )

    def multiply(self, flat: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        """∇²L v for a flat vector, summed in float64."""
        vector, total = unflattened(flat, self.parameters), torch.zeros_like(flat)
        for number, part in enumerate(self.parts):
            total += flattened(self.of_part(number, vector)) * (len(part) / self.sentences)
        return total

    def quadratic_forms(
        self, vectors: Sequence[Float[Tensor, " P"]]
    ) -> list[tuple[Float[Tensor, " P"], Float[Tensor, " n"]]]:
        """Of each flat vector v, ∇²L v as `multiply`, and vᵀ∇²L_i v of every sentence's loss, float64."""
        named = [unflattened(each, self.parameters) for each in vectors]
        totals, forms = [torch.zeros_like(each) for each in vectors], [list[Tensor]() for _ in vectors]
        pieces = [
            piece for part in self.parts for piece in split_sentences(part, -(-len(part) // AT_ONCE_THRICE))
        ]
        done = 0
        for piece in pieces:
            placed = piece.to(device_of(self.model))
            losses = partial(mean_losses, self.model, self.objective, placed, done, self.distribution)
            for place, (product, of_piece) in enumerate(
                hessian_quadratic_forms(losses, self.parameters, named)
            ):
                totals[place] += flattened(product) / self.sentences
                forms[place].append(of_piece.double().cpu())
            done += len(piece)
        return [(total, torch.cat(of_each)) for total, of_each in zip(totals, forms, strict=True)]

    def curvature(self, vector: Mapping[str, Tensor]) -> "Curvature":
        """vᵀ∇²L v with its errors over parts, v held fixed; one product with every part."""
        total, by_part = torch.zeros_like(flattened(vector)), []
        for number, part in enumerate(self.parts):
            product = self.of_part(number, vector)
            by_part.append(inner_products_by_group(vector, product))
            total += flattened(product) * (len(part) / self.sentences)
        sizes = torch.tensor([len(part) for part in self.parts])
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
