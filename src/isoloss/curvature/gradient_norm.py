"""The norm of the loss gradient, without the bias due to a finite number of sentences."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import (
    MeasuredParameters,
    gradient,
    inner_products_by_group,
    trainable_parameters,
)
from isoloss.curvature.loss import losses_of, sentence_blocks
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation import evaluation_mode
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, jackknifed

TASK = "gradient norm"
ROUNDING = 1e-10
"""Of a squared gradient: variances below are those of rounding, in double or single precision."""


@dataclass(frozen=True)
class GradientNorm:
    """||∇L||² in nats² per squared parameter, in total and by group; the groups add up to the total.

    Unbiased, so a value may be negative if the gradient is zero within its error. `noise` is tr Σ, the trace
    of the covariance of a sentence's gradient, unbiased too, and `signal` their ratio ||∇L||² / tr Σ, the
    inverse of the gradient noise scale. The estimates' `n` counts blocks of sentences, `sentences` the
    sentences.
    """

    squared: Estimate
    noise: Estimate
    signal: Estimate
    groups: dict[str, Estimate]
    sentences: int
    parameters: MeasuredParameters

    @property
    def norm(self) -> Estimate:
        """||∇L||, the root of the squared norm, or zero if that is negative; in nats per parameter.

        Its standard error is the change of the root when the squared norm increases by one standard error:
        the linearised error if the gradient is well above zero, and finite if it is not.
        """
        root = math.sqrt(max(self.squared.value, 0.0))
        raised = math.sqrt(max(self.squared.value, 0.0) + self.squared.standard_error)
        return Estimate(root, raised - root, self.squared.n)


def gradient_norm(
    model: nn.Module,
    batches: Iterable[Batch],
    objective: Objective,
    *,
    progress: Progress = silent,
) -> GradientNorm:
    """The squared gradient norm of the sentence-averaged loss, unbiased, with a jackknife error.

    The squared norm of a mean gradient over n sentences exceeds ||∇L||² by the gradient's variance / n, which
    near a minimum is all there is. Inner products between the gradients of different blocks have no such
    bias; hence the U-statistic Σ_{a≠b} w_a w_b h_a·h_b / Σ_{a≠b} w_a w_b, where h_b is a block's gradient and
    w_b its number of sentences. The standard error is a leave-one-block-out jackknife; it errs on the wide
    side if the gradient is zero within the error.

    Makes two passes over the batches, with a backward pass each. Memory: two more vectors of the parameters'
    size, one in float64, and two float64 copies of the largest tensor, beside a block's backward pass. The
    model is left as found. Raises BadInput for fewer than three sentences, when no parameter needs a
    gradient, and where a logit is not finite.
    """
    parameters, measured = trainable_parameters(model), MeasuredParameters.of(model)
    blocks = sentence_blocks(batches, fewest=3)
    losses = losses_of(model, blocks, objective)
    total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    squares, products = [], []
    with evaluation_mode(model):
        for number, block in enumerate(blocks):
            of_block = gradient(losses[number].mean, parameters)
            for name, values in of_block.items():
                total[name] += len(block) * values
            squares.append(inner_products_by_group(of_block, of_block))
            progress(TASK, number + 1, 2 * len(blocks))
        for number, loss in enumerate(losses):
            products.append(inner_products_by_group(gradient(loss.mean, parameters), total))
            progress(TASK, len(blocks) + number + 1, 2 * len(blocks))
    sizes = torch.tensor([len(block) for block in blocks], dtype=torch.float64)
    groups = {
        name: mean_of_distinct_pairs(
            sizes,
            torch.tensor([block[name] for block in squares], dtype=torch.float64),
            torch.tensor([block[name] for block in products], dtype=torch.float64),
        )
        for name in squares[0]
    }
    of_whole = [
        torch.tensor([sum(block.values()) for block in each], dtype=torch.float64)
        for each in (squares, products)
    ]
    whole, (noise, signal) = mean_of_distinct_pairs(sizes, *of_whole), noise_and_signal(sizes, *of_whole)
    return GradientNorm(whole, noise, signal, groups, sum(map(len, blocks)), measured)


def mean_of_distinct_pairs(
    weights: Float[Tensor, " k"], squares: Float[Tensor, " k"], products: Float[Tensor, " k"]
) -> Estimate:
    """Σ_{a≠b} w_a w_b h_a·h_b / Σ_{a≠b} w_a w_b for vectors h, with its jackknife error.

    `squares` are ||h_b||² and `products` h_b · Σ_a w_a h_a: with these, leaving one vector out needs no
    access to the vectors.

    >>> h = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64)
    >>> mean_of_distinct_pairs(torch.ones(3).double(), h**2, h * h.sum()).value  # (1·2 + 1·6 + 2·6) / 3
    6.666666666666667
    """
    return jackknifed(*_distinct_pairs(weights, squares, products))


def noise_and_signal(
    weights: Float[Tensor, " k"], squares: Float[Tensor, " k"], products: Float[Tensor, " k"]
) -> tuple[Estimate, Estimate]:
    """tr Σ of the gradient of one sentence, and ||∇L||² / tr Σ, from blocks of `weights` sentences each.

    The squared norm of a mean over w sentences is ||∇L||² + tr Σ / w on average, so that tr Σ is the mean
    over blocks of w (||h||² - ||∇L||²), with the unbiased ||∇L||² of `mean_of_distinct_pairs`. Errors are the
    jackknife's over blocks. Where all gradients are equal the ratio is infinite, and where they are without
    one of them, its error is unknown (nan). The inverse of the second is the simple noise scale of
    McCandlish et al. 2018 ("An Empirical Model of Large-Batch Training"), in sentences: the batch size at
    which noise and gradient are of one size.

    >>> h = torch.tensor([1.0, 2.0, 6.0], dtype=torch.float64)
    >>> noise, signal = noise_and_signal(torch.ones(3).double(), h**2, h * h.sum())
    >>> round(noise.value, 6), float(h.var()), round(signal.value, 4)  # 6.6667 / 7
    (7.0, 7.0, 0.9524)
    """
    k = len(weights)
    value, without = _distinct_pairs(weights, squares, products)
    whole, mean = (weights * squares).sum(), weights.mean()
    noise = _above_rounding(whole / k, value * mean)
    rest = (k * mean - weights) / (k - 1)
    noise_without = _above_rounding((whole - weights * squares) / (k - 1), without * rest)
    return jackknifed(noise, noise_without), jackknifed(value / noise, without / noise_without)


def _above_rounding(squares: Float[Tensor, " *k"], mean: Float[Tensor, " *k"]) -> Float[Tensor, " *k"]:
    """What `squares` have more than the square of their mean, or zero."""
    return torch.where((squares - mean).abs() > ROUNDING * squares, squares - mean, 0.0)


def _distinct_pairs(
    weights: Float[Tensor, " k"], squares: Float[Tensor, " k"], products: Float[Tensor, " k"]
) -> tuple[Float[Tensor, ""], Float[Tensor, " k"]]:
    """The value of `mean_of_distinct_pairs`, and what it is without each vector."""
    diagonal = weights.square() * squares
    norm = (weights * products).sum()
    value = (norm - diagonal.sum()) / (weights.sum().square() - weights.square().sum())
    without = norm - 2 * weights * products + diagonal
    left = (weights.sum() - weights).square() - (weights.square().sum() - weights.square())
    leave_one_out = (without - (diagonal.sum() - diagonal)) / left
    return value, leave_one_out
