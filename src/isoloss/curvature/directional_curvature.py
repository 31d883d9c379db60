"""The loss's curvature along a direction: an update, another checkpoint, the gradient of small batches."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import (
    MeasuredParameters,
    gradient,
    hessian_vector_product,
    inner_products_by_group,
    trainable_parameters,
)
from isoloss.curvature.loss import LossHessian, in_parts, losses_of
from isoloss.curvature.loss_rise import ascent_direction
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective, sentences_between
from isoloss.objectives.evaluation import evaluation_mode
from isoloss.progress import Progress, part_of, silent
from isoloss.results.estimate import Estimate, sample_mean

BATCH = 8
"""Sentences in a small batch, unless a number is asked for."""


@dataclass(frozen=True)
class DirectionalSharpness:
    """vᵀHv / |v|² in total and by group, in nats per squared parameter; `norm` is |v|.

    Standard errors are over blocks of sentences with v held fixed, whose values are `by_block`.
    """

    by_block: Float[Tensor, " k"]
    groups: dict[str, Estimate]
    norm: float
    sentences: int
    parameters: MeasuredParameters

    @property
    def estimate(self) -> Estimate:
        """The total."""
        return sample_mean(self.by_block)


def directional_sharpness(
    model: nn.Module,
    batches: Iterable[Batch],
    objective: Objective,
    *,
    direction: Mapping[str, Tensor] | None = None,
    progress: Progress = silent,
) -> DirectionalSharpness:
    """The curvature of the sentence-averaged loss along `direction`, as in Pan and Li (arXiv 2306.00204).

    `direction` is that of an update: anything by parameter name, zero where a name is absent; by default the
    gradient on the same sentences, along which plain gradient descent moves. An update of length |v| then
    changes the loss by ∇L·v + |v|²/2 times this number, to second order. One pass with a double backward
    pass, and one more for the gradient. Memory: three vectors of the parameters' size, one in float64, and
    two float64 copies of the largest tensor, beside the double backward pass of a block.

    The model is left as found. Raises BadInput for fewer than two sentences, for a direction of length zero
    or with a name or shape that the model lacks, when no parameter needs a gradient, and where a logit is not
    finite.
    """
    measured = MeasuredParameters.of(model)
    batches = list(batches)
    blocks = LossHessian.in_blocks(model, batches, objective)
    parameters = blocks.parameters

    def report(task: str, completed: float, total: float, message: str = "") -> None:  # noqa: ARG001
        progress("directional sharpness", completed, total, message)

    with evaluation_mode(model):
        if direction is None:
            losses = losses_of(model, in_parts(batches), objective)
            along, norm = ascent_direction(losses, report)
        else:
            along, norm = _unit(direction, parameters)
        if not norm > 0:
            raise BadInput("the direction has no length, so that nothing is curved along it; name another")
        found = blocks.curvature(along, part_of(report, 1, 2))
    progress("directional sharpness", 2, 2)
    return DirectionalSharpness(found.by_part, found.groups, norm, blocks.sentences, measured)


def _unit(
    direction: Mapping[str, Tensor], parameters: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], float]:
    """The direction for every parameter, of length 1, and its length."""
    for name, values in direction.items():
        if name not in parameters or values.shape != parameters[name].shape:
            raise BadInput(f"the direction has a {name} that the model lacks; take one of the same shape")
    direction = {name: values.detach() for name, values in direction.items()}
    squares = [values.double().square().sum() for values in direction.values()]
    norm = float(torch.stack(squares).sum().sqrt()) if squares else 0.0
    return {
        name: (direction[name].double() / (norm or 1.0)).to(p) if name in direction else torch.zeros_like(p)
        for name, p in parameters.items()
    }, norm


@dataclass(frozen=True)
class BatchSharpness:
    """g_Bᵀ H_B g_B / |g_B|² in nats per squared parameter, of each batch of `batch` sentences."""

    by_batch: Float[Tensor, " k"]
    batch: int
    sentences: int
    parameters: MeasuredParameters

    @property
    def estimate(self) -> Estimate:
        """The mean over batches with its standard error."""
        return sample_mean(self.by_batch)


def batch_sharpness(
    model: nn.Module,
    batches: Iterable[Batch],
    objective: Objective,
    *,
    batch: int = BATCH,
    progress: Progress = silent,
) -> BatchSharpness:
    """The curvature that a small batch's loss has along its own gradient, averaged over batches of `batch`.

    Andreyev and Beneventano 2024, "Edge of Stochastic Stability" (arXiv 2412.20553): under SGD with learning
    rate η it settles about 2 / η, as the largest eigenvalue does under full-batch descent. It depends on the
    batch size, so take that of training. The sentences of each given batch are split, in order, into disjoint
    ones of `batch`, without a rest that is too small; the standard error is over them. Makes one pass with a
    backward pass and one with a double one. Memory: three vectors of the parameters' size and two float64
    copies of the largest tensor, beside the double backward pass of `batch` sentences.

    The model is left as found. Raises BadInput for fewer than two small batches or a batch below one
    sentence, when a batch's gradient is zero, when no parameter needs one, and where a logit is not finite.
    """
    if batch < 1:
        raise BadInput(f"a batch has at least one sentence, not {batch}")
    measured, batches = MeasuredParameters.of(model), list(batches)
    firsts = itertools.accumulate(map(len, batches), initial=0)
    losses = [
        loss
        for each, first in zip(batches, firsts, strict=False)
        for loss in losses_of(model, _without_a_rest(each, batch), objective, first)
    ]
    if len(losses) < 2:
        raise BadInput(
            f"{sum(map(len, batches))} sentences are not two batches of {batch}, and one has no error bar; "
            "measure on more, or in smaller batches"
        )
    parameters = trainable_parameters(model)
    curvatures = []
    with evaluation_mode(model):
        for number, loss in enumerate(losses):
            along = gradient(loss.mean, parameters)
            square = sum(inner_products_by_group(along, along).values())
            if not square > 0:
                raise BadInput(
                    "the gradient of a batch is zero, so that it has no direction; take larger ones"
                )
            product = hessian_vector_product(loss.mean, parameters, along)
            curvatures.append(sum(inner_products_by_group(along, product).values()) / square)
            progress("batch sharpness", number + 1, len(losses))
    found = torch.tensor(curvatures, dtype=torch.float64)
    return BatchSharpness(found, batch, batch * len(losses), measured)


def _without_a_rest(batch: Batch, size: int) -> list[Batch]:
    return [sentences_between(batch, start, start + size) for start in range(0, len(batch) - size + 1, size)]
