"""Flatness-regularised pre-training in one backward pass: the loss smoothed over Gaussian weight noise."""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch
from isoloss.objectives.evaluation_mode import displaced
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.descent import DescentSettings, GradientRule
from isoloss.pretraining.seeds import derived_seed
from isoloss.pretraining.update_rule import Training


@dataclass(frozen=True)
class FlatnessRegularised:
    """Descends E_ε L(θ + σε) = L(θ) + (σ²/2) Tr ∇²L(θ) + O(σ⁴), ε ~ N(0, I) over all parameters.

    So the penalty is on the trace of the Hessian itself, which is the Fisher's in the saturation regime
    (Lemma 3.2), with weight σ²/2: an explicit regulariser as the paper's Section D asks for, where SAM is too
    costly for passing twice. The step's gradient is ∇L(θ + σε), one forward and one backward pass of the
    batch, unbiased for the smoothed loss. Steps go in pairs, the second with -ε: what the noise adds to
    first order, σ ∇²L ε, cancels within the pair, but for what the batches and the step between differ.
    `optimiser` makes the update. Nothing is differentiated twice, so any model and any attention will do.

    Returned and recorded is the batch's loss at the displaced weights, which is above the loss at θ by the
    penalty on average. Memory: the noise and a copy of the parameters.
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
        """See `UpdateRuleSettings.build`."""
        weights: list[Tensor] = [weight for weight in training.model.parameters() if weight.requires_grad]

        def smoothed_gradient(batch: Batch, step: int) -> Float[Tensor, ""]:
            side = self.noise if step % 2 else -self.noise
            with displaced(weights, weight_noise(weights, training.seed, (step + 1) // 2), side):
                return training.add_gradient(batch)

        return GradientRule(self.optimiser.descent(training), smoothed_gradient)


def weight_noise(weights: list[Tensor], seed: int, pair: int) -> list[Tensor]:
    """Standard normal numbers in the weights' shapes: a function of the run's seed and the pair's number."""
    device, dtype = weights[0].device, weights[0].dtype
    generator = torch.Generator(device).manual_seed(derived_seed(seed, "weight noise", pair))
    sizes = [weight.numel() for weight in weights]
    pieces = torch.split(torch.randn(sum(sizes), generator=generator, device=device, dtype=dtype), sizes)
    return [piece.view_as(weight) for piece, weight in zip(pieces, weights, strict=True)]
