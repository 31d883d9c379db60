"""Flatness-regularised pre-training in one backward pass: the loss smoothed over Gaussian weight noise."""

import math
from dataclasses import dataclass, field
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.descent import DescentSettings
from isoloss.pretraining.displaced_weights import displaced
from isoloss.pretraining.gradient_rule import GradientRule
from isoloss.pretraining.halves import check_halves, halves
from isoloss.pretraining.update_rule import Training


@dataclass(frozen=True)
class FlatnessRegularised:
    """Descends E_ε L(θ + σε) = L(θ) + (σ²/2) Tr ∇²L(θ) + O(σ⁴), ε ~ N(0, I) over all parameters.

    So the penalty is on the trace of the Hessian itself, which is the Fisher's in the saturation regime
    (Lemma 3.2), with weight σ²/2: the regulariser that the paper's Section D leaves to future work because
    SAM passes twice. The step's gradient, ½ ∇L_0(θ + σε) + ½ ∇L_1(θ - σε) over the batch's two halves, is
    unbiased for the smoothed loss, and its noise of first order, σ∇²L ε, cancels up to the difference of
    the halves. Every sentence is passed forwards and backwards once; `optimiser` makes the update. Nothing
    is differentiated twice, so any model and any attention will do.

    Returned and recorded is the smoothed loss on the batch, above the loss at θ by the penalty. Memory: the
    noise and a copy of the parameters.
    """

    noise: float = 0.01
    optimiser: DescentSettings = field(default_factory=AdamW)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise) and self.noise > 0):
            raise BadInput(
                f"the noise's deviation must be a positive number, not {self.noise}; without noise train by "
                "the optimiser itself"
            )

    def build(self, training: Training) -> GradientRule:
        """See `UpdateRuleSettings.build`. Raises BadInput for a batch that has no two halves."""
        check_halves("flatness-regularised pre-training", training.batch_size)
        return GradientRule(
            self.optimiser.descent(training), partial(smoothed_gradient, training, self.noise)
        )


def smoothed_gradient(training: Training, noise: float, batch: Batch) -> Float[Tensor, ""]:
    """The batch's halves' mean gradient at θ + σε and at θ - σε; returns their mean loss there.

    ε is drawn from the global generator of the parameters' device.
    """
    weights = [weight for weight in training.model.parameters() if weight.requires_grad]
    directions = [torch.randn_like(weight) for weight in weights]
    smoothed = torch.zeros((), device=batch.rows.device)
    for part, side in zip(halves(batch), (noise, -noise), strict=True):
        with displaced(weights, directions, side):
            loss = training.loss(part) * (len(part) / len(batch))
            loss.backward()  # type: ignore[no-untyped-call]
        smoothed = smoothed + loss.detach()
    return smoothed
