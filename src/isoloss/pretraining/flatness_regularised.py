"""Pre-training for or against flatness, through the loss smoothed by Gaussian noise on the weights."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch
from isoloss.objectives.evaluation_mode import displaced
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.adversarial import LossController
from isoloss.pretraining.descent import DescentSettings, GradientRule
from isoloss.pretraining.update_rule import Training
from isoloss.seeds import derived_seed


@dataclass(frozen=True)
class FlatnessRegularised:
    """Descends E_ε L(θ + σε) = L(θ) + (σ²/2) Tr ∇²L(θ) + O(σ⁴), ε ~ N(0, I) over all parameters.

    This penalises the trace of the Hessian itself, which equals the Fisher's in the saturation regime (Lemma
    3.2), with weight σ²/2: an explicit regulariser as called for in the paper's Section D, where SAM is too
    costly because of its two passes. The step's gradient is ∇L(θ + σε), which takes one forward and one
    backward pass of the batch and is unbiased for the smoothed loss. Steps come in antithetic pairs, the
    second with -ε: the first-order effect of the noise, σ ∇²L ε, cancels within the pair, up to differences
    between the batches and the step in between. `optimiser` makes the update. There are no second
    derivatives, so any model and any attention will do. The loss returned and recorded is the batch's loss at
    the displaced weights, which on average exceeds the loss at θ by the penalty. Memory: the noise and a copy
    of the parameters.
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


@dataclass(frozen=True)
class Sharpened:
    """Descends L(θ) - λ (E_ε L(θ + σε) - L(θ)) = L(θ) - λ (σ²/2) Tr ∇²L(θ) + O(σ⁴): towards sharper minima.

    `FlatnessRegularised` with the opposite sign. As for the adversary, the averaged pre-training loss
    controls λ between 0 and `strength` over the `loss_window` (`LossController`), so that the model becomes
    sharper at the same loss. A step takes three passes, at θ and θ ± σε, whose first-order terms in σ cancel.
    `optimiser` makes the update. The loss returned and recorded is the batch's loss at θ; readings are
    `lambda` and `smoothed_loss`.
    """

    loss_window: tuple[float, float]
    noise: float = 0.01
    strength: float = 1.0
    smoothing: float = 0.99
    optimiser: DescentSettings = field(default_factory=AdamW)

    def __post_init__(self) -> None:
        FlatnessRegularised(self.noise)  # rejects noise of no size
        self.controller()

    def controller(self) -> LossController:
        """A new controller of λ."""
        return LossController(self.loss_window, self.strength, self.smoothing)

    def build(self, training: Training) -> "SharpeningRule":
        """See `UpdateRuleSettings.build`."""
        return SharpeningRule(self, training)


class SharpeningRule:
    """The `UpdateRule` of `Sharpened`."""

    def __init__(self, settings: Sharpened, training: Training) -> None:
        self.settings, self.training = settings, training
        self.weights: list[Tensor] = [w for w in training.model.parameters() if w.requires_grad]
        self.descent = settings.optimiser.descent(training)
        self.controller = settings.controller()

    def step(self, batch: Batch, step: int) -> Float[Tensor, ""]:
        """See `UpdateRule.step`."""
        self.descent.clear()
        loss = self.training.add_gradient(batch)
        strength = self.controller.strength_at(loss.item())
        if strength > 0:
            # (1 + λ) ∇L - (λ/2) (∇L₊ + ∇L₋) is -λ/2 times what two more passes make of this.
            self._scale(-2 * (1 + strength) / strength)
            noise = weight_noise(self.weights, self.training.seed, step)
            for side in (self.settings.noise, -self.settings.noise):
                with displaced(self.weights, noise, side):
                    self.training.add_gradient(batch)
            self._scale(-strength / 2)
        self.descent.update(step)
        return loss

    def _scale(self, factor: float) -> None:
        torch._foreach_mul_([w.grad for w in self.weights if w.grad is not None], factor)

    def readings(self) -> dict[str, float]:
        """See `UpdateRule.readings`."""
        return dict(self.controller.last)

    def state_dict(self) -> dict[str, Any]:
        """See `UpdateRule.state_dict`."""
        return {"descent": self.descent.state_dict(), "controller": self.controller.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `UpdateRule.load_state_dict`."""
        self.descent.load_state_dict(state["descent"])
        self.controller.load_state_dict(state["controller"])


def weight_noise(weights: list[Tensor], seed: int, pair: int) -> list[Tensor]:
    """Standard normal noise in the weights' shapes: a function of the run's seed and the pair's index."""
    device, dtype = weights[0].device, weights[0].dtype
    generator = torch.Generator(device).manual_seed(derived_seed(seed, "weight noise", pair))
    sizes = [weight.numel() for weight in weights]
    pieces = torch.split(torch.randn(sum(sizes), generator=generator, device=device, dtype=dtype), sizes)
    return [piece.view_as(weight) for piece, weight in zip(pieces, weights, strict=True)]
