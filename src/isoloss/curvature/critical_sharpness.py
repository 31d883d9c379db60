"""Critical sharpness: 2 over the smallest learning rate at which a gradient step raises the loss.

Kalra et al. 2026, "A Scalable Measure of Loss Landscape Curvature for Analyzing the Training Dynamics of
LLMs" (arXiv 2601.16979). Of a quadratic loss it is the directional sharpness gᵀHg / gᵀg. Relative critical
sharpness takes the step along the gradient of other data: it is the curvature that a loss has while another
one is optimised, and of a quadratic loss gᵀHg / gᵀ∇L, with the other's gradient g.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import MeasuredParameters, inner_products_by_group
from isoloss.curvature.loss import BatchLoss, LabelDistribution, LossAtRest, in_parts, losses_of
from isoloss.curvature.loss_rise import ascent_direction
from isoloss.curvature.stopping import refuse_too_few
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation import evaluation_mode
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, mean_over_sentences

TASK = "critical sharpness"
START, DOUBLINGS, HALVINGS = 0.1, 60, 7
"""The first learning rate tried; how often it is doubled or halved; then the bracket is halved to 1 %."""


@dataclass(frozen=True)
class CriticalSharpness:
    """2 / η, per unit of learning rate, with η the `learning_rate`; `passes` are forward passes."""

    estimate: Estimate
    learning_rate: float
    passes: int
    parameters: MeasuredParameters


def critical_sharpness(
    model: nn.Module,
    batches: Sequence[Batch],
    objective: Objective,
    *,
    along: Sequence[Batch] | None = None,
    distribution: LabelDistribution | None = None,
    progress: Progress = silent,
) -> CriticalSharpness:
    """2 / η_c, η_c the least η with L(θ - η g) > L(θ), and g = ∇L on the same sentences.

    With other sentences `along`, g is the gradient of their loss instead: the relative critical sharpness of
    L while that is optimised. Where the two gradients point apart, every step raises L, and it is infinite.

    The learning rate is doubled or halved until it brackets η_c, and the bracket is then halved: if the loss
    falls, rises and falls again between two doublings, that is overlooked. The standard error is that of the
    zero of the mean rise, to first order, with the direction held fixed: sd(rise) / √n over the slope. One
    pass with a backward pass, or two with `along`, and about a dozen without.

    The model is left as found. Raises BadInput for fewer than two sentences, or none in `along`, when no
    parameter needs a gradient, where a logit is not finite, and if the gradient is zero, or that of `along`
    points away from ∇L, or no step raises the loss.
    """
    n = sum(map(len, batches))
    refuse_too_few(n)
    if along is not None and not any(map(len, along)):
        raise BadInput("there are no sentences to take the step along; give some")
    measured = MeasuredParameters.of(model)
    losses = losses_of(model, in_parts(batches), objective, distribution)
    others = None if along is None else losses_of(model, in_parts(along), objective, distribution)
    with evaluation_mode(model):
        direction, norm = _step(losses, others)
        at_rest = [LossAtRest.of(loss) for loss in losses]
        passes = 0

        def rises(rate: float) -> Float[Tensor, " n"] | None:
            """Of each sentence; None if the step leads to scores that are not finite."""
            nonlocal passes
            passes += 1
            progress(TASK, min(passes, DOUBLINGS), DOUBLINGS)
            try:
                return torch.cat([each.rise(direction, -rate * norm) for each in at_rest])
            except BadInput:
                return None

        def is_above(rate: float) -> bool:
            found = rises(rate)
            return found is None or float(found.mean()) > 0

        low, high = _bracket(is_above)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if is_above(middle) else (middle, high)
        below, above = rises(low), rises(high)
    if below is None or above is None:
        raise BadInput("the step that raises the loss gives scores that are not finite; measure in float64")
    rate, slope = (low + high) / 2, float((above - below).mean()) / (high - low)
    error = mean_over_sentences((below + above) / 2).standard_error / slope
    return CriticalSharpness(Estimate(2 / rate, 2 / rate**2 * error, n), rate, passes, measured)


def _step(losses: Sequence[BatchLoss], along: Sequence[BatchLoss] | None) -> tuple[dict[str, Tensor], float]:
    """The unit vector of the gradient to step against, and that gradient's length."""
    direction, norm = ascent_direction(losses if along is None else along)
    if norm == 0:
        raise BadInput("the gradient is zero, so that there is no step to take; measure another model")
    if along is not None:
        gradient, _ = ascent_direction(losses)
        if not sum(inner_products_by_group(gradient, direction).values()) > 0:
            raise BadInput(
                "the gradients of the two data sets point apart: what lowers the one's loss raises the "
                "other's at once, which is infinitely sharp; give data more alike, or more of them"
            )
    return direction, norm


def _bracket(is_above: Callable[[float], bool]) -> tuple[float, float]:
    """Two learning rates, the second twice the first, of which the second alone raises the loss."""
    rate, above = START, is_above(START)
    for _ in range(DOUBLINGS):
        other = rate / 2 if above else rate * 2
        if is_above(other) != above:
            return min(rate, other), max(rate, other)
        rate = other
    raise BadInput("no step along the gradient raises the loss, however long or short; nothing is sharp here")
