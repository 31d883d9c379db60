"""Sharpness-aware minimisation in halves (Foret et al. 2021; paper A.5)."""

import math
from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor
from torch.nn.utils import get_total_norm

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch
from isoloss.objectives.evaluation_mode import displaced
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.descent import DescentSettings, GradientRule
from isoloss.pretraining.update_rule import Training

SMALLEST_NORM = 1e-12
"""Added to the gradient's norm, so that a gradient of zero moves nothing."""


@dataclass(frozen=True)
class SAM:
    """g = ∇L_1(θ + ρ ∇L_0(θ) / ||∇L_0(θ)||), where L_0 and L_1 are the losses of the batch's two halves.

    The first half determines the ascent point, and the second half's gradient there gives the update (A.5);
    the first half's gradient is not part of it. The norm is over all parameters together. `optimiser` makes
    the update from g; the paper's is AdamW without weight decay, and its model has no dropout. The loss
    returned and recorded is L_0(θ), on the first half before the update. A step costs about what a plain step
    on the whole batch does, and learns from half of it. Memory: a copy of the parameters.
    """

    rho: float = 0.05
    optimiser: DescentSettings = field(default_factory=lambda: AdamW(weight_decay=0.0))

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rho) and self.rho > 0):
            raise BadInput(
                f"rho must be a positive number, not {self.rho}; without ascent train by the optimiser itself"
            )

    def build(self, training: Training) -> GradientRule:
        """See `UpdateRuleSettings.build`. Raises BadInput for a batch that has no two halves to share."""
        if training.batch_size < (least := 2 * training.processes.count):
            raise BadInput(f"SAM splits each batch in two; give batches of at least {least} sentences")
        descent = self.optimiser.descent(training)
        return GradientRule(descent, lambda batch, _: sam_gradient(training, self.rho, batch))


def sam_gradient(training: Training, rho: float, batch: Batch) -> Float[Tensor, ""]:
    """Computes ∇L_1 at the ascent point of the first ⌊n/2⌋ sentences; returns L_0(θ)."""
    middle = len(batch) // 2
    loss = training.add_gradient(batch.part(0, middle))
    weights: list[Tensor] = [weight for weight in training.model.parameters() if weight.grad is not None]
    ascent = [weight.grad for weight in weights if weight.grad is not None]
    scale = rho / (float(get_total_norm(ascent)) + SMALLEST_NORM)
    with displaced(weights, ascent, scale):
        training.model.zero_grad()
        training.add_gradient(batch.part(middle, len(batch)))
    return loss
