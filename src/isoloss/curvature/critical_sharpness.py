"""The least learning rate at which a gradient step raises the loss, as a measure of sharpness.

Critical sharpness is 2 over the smallest learning rate at which a gradient step raises the loss: Kalra et al.
2026, "A Scalable Measure of Loss Landscape Curvature for Analyzing the Training Dynamics of LLMs" (arXiv
2601.16979). Of a quadratic loss it is the directional sharpness gᵀHg / gᵀg. Relative critical sharpness takes
the step along the gradient of other data: it is the curvature that a loss has while another one is optimised,
and of a quadratic loss gᵀHg / gᵀ∇L, with the other's gradient g.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import (
    MeasuredParameters,
    inner_products_by_group,
)
from isoloss.curvature.loss import BatchLoss, LossAtRest, in_parts, losses_of
from isoloss.curvature.loss_rise import ascent_direction
from isoloss.curvature.stopping import refuse_too_few
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation import evaluation_mode
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, sample_mean

START, DOUBLINGS, BETWEEN, HALVINGS = 0.1, 60, 3, 5
"""The first learning rate tried; how often it may be halved; how many are tried between one and its double;
how often the bracket is then halved, to 1 %."""


@dataclass(frozen=True)
class CriticalSharpness:
    """2 / η, per unit of learning rate, with η the `learning_rate`; `passes` are forward passes."""

    estimate: Estimate
    learning_rate: float
    passes: int
    parameters: MeasuredParameters


def critical_sharpness(
    model: nn.Module,
    batches: Iterable[Batch],
    objective: Objective,
    *,
    along: Sequence[Batch] | None = None,
    progress: Progress = silent,
) -> CriticalSharpness:
    """2 / η_c, η_c the least η with L(θ - η g) > L(θ), and g = ∇L on the same sentences.

    With other sentences `along`, g is the gradient of their loss instead: the relative critical sharpness of
    L while that is optimised. Where the two gradients point apart, every step raises L, and it is infinite.

    The learning rate is halved until the loss falls by at least half of what its gradient says, then doubled
    until it rises. From where it first falls less than that, or less far than at half the rate, three rates
    between one and its double are tried as well, up to the first rise, and the bracket is halved: a rise
    between two doublings is found unless the loss falls again within a fifth of the rate, or it lies before
    these. The standard error is that of the zero of the mean rise, to first order, with the direction held
    fixed: sd(rise) / √n over the slope. One pass with a backward pass, or two with `along`, and two or three
    dozen without: three for each doubling that is looked into, of which there are few where the loss rises
    soon after its turn.

    The model is left as found. Raises BadInput for fewer than two sentences, or none in `along`, when no
    parameter needs a gradient, where a logit is not finite, and if the gradient is zero, or that of `along`
    points away from ∇L, or no step raises the loss. Sentences are numbered from those of `along` on.
    """
    batches = list(batches)
    n = sum(map(len, batches))
    refuse_too_few(n)
    if along is not None and not any(map(len, along)):
        raise BadInput("there are no sentences to take the step along; give some")
    measured = MeasuredParameters.of(model)
    before = sum(map(len, along or ()))
    losses = losses_of(model, in_parts(batches), objective, first_sentence=before)
    others = None if along is None else losses_of(model, in_parts(along), objective)
    with evaluation_mode(model):
        direction, norm, slope = _step(losses, others)
        along_it = _Rises([LossAtRest.of(loss) for loss in losses], direction, norm, progress)
        low, high = _bracket(along_it.mean, slope)
        along_it.is_bracketed = True
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if along_it.mean(middle) > 0 else (middle, high)
        below, above = along_it.at(low), along_it.at(high)
    if below is None or above is None:
        raise BadInput("the step that raises the loss gives scores that are not finite; measure in float64")
    rate, slope = (low + high) / 2, float((above - below).mean()) / (high - low)
    error = sample_mean((below + above) / 2).standard_error / slope
    return CriticalSharpness(Estimate(2 / rate, 2 / rate**2 * error, n), rate, along_it.passes, measured)


@dataclass
class _Rises:
    """The rise of each sentence's loss after a step against a unit `direction` of a gradient's length."""

    at_rest: Sequence[LossAtRest]
    direction: dict[str, Tensor]
    length: float
    progress: Progress
    passes: int = 0
    left: int = HALVINGS + 2
    is_bracketed: bool = False

    def at(self, rate: float) -> Float[Tensor, " n"] | None:
        """At that learning rate; None if the step leads to scores that are not finite."""
        self.passes += 1
        self.left -= self.is_bracketed
        self.progress("critical sharpness", self.passes, self.passes + self.left)
        try:
            return torch.cat([each.rise(self.direction, -rate * self.length) for each in self.at_rest])
        except BadInput:
            return None

    def mean(self, rate: float) -> float:
        """Of the mean loss; infinite where it is not finite."""
        found = self.at(rate)
        return math.inf if found is None else float(found.mean())


def _step(
    losses: Sequence[BatchLoss], along: Sequence[BatchLoss] | None
) -> tuple[dict[str, Tensor], float, float]:
    """The unit vector of the gradient g to step against, the length of g, and g·∇L."""
    direction, norm = ascent_direction(losses if along is None else along)
    if norm == 0:
        raise BadInput("the gradient is zero, so that there is no step to take; measure another model")
    slope = norm**2
    if along is not None:
        gradient, of_gradient = ascent_direction(losses)
        slope = norm * of_gradient * sum(inner_products_by_group(gradient, direction).values())
        if not slope > 0:
            raise BadInput(
                "the gradients of the two data sets point apart: what lowers the one's loss raises the "
                "other's at once, which is infinitely sharp; give data more alike, or more of them"
            )
    return direction, norm, slope


def _bracket(rise: Callable[[float], float], slope: float) -> tuple[float, float]:
    """The first two neighbouring learning rates of which the second raises the loss.

    The first of all is so small that the loss falls by at least half of what its `slope` says.
    """
    low, found = START, {START: rise(START)}
    while found[low] > -low * slope / 2:
        if len(found) > DOUBLINGS:
            raise BadInput(
                "the loss falls along its gradient by less than half of what the gradient says, however "
                "short the step: rounding hides it; measure in float64"
            )
        low /= 2
        found[low] = rise(low)
    doubled = {low: found[low]}
    for _ in range(2 * DOUBLINGS):
        high = 2 * low
        doubled[high] = found[high] if high in found else rise(high)
        if doubled[high] > 0:
            return _first_rise(doubled, rise, slope)
        low = high
    raise BadInput("no step along the gradient raises the loss, however long; nothing is sharp here")


def _first_rise(
    doubled: dict[float, float], rise: Callable[[float], float], slope: float
) -> tuple[float, float]:
    """The first rate above which the loss rises, and that, among doubled rates and `BETWEEN` each two.

    As long as the loss falls as its gradient says, it is taken not to rise in between.
    """
    looked_into = False
    for low, high in pairwise(doubled):
        looked_into = looked_into or doubled[high] > min(doubled[low], -high * slope / 2)
        below = low
        for number in range(1, BETWEEN + 1) if looked_into else ():
            between = low * 2 ** (number / (BETWEEN + 1))
            if rise(between) > 0:
                return below, between
            below = between
    return below, high
