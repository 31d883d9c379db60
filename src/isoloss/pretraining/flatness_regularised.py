"""Pre-training for or against flatness: by the loss under noise on the weights, and by SAM."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils import get_total_norm

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch
from isoloss.objectives.evaluation import displaced
from isoloss.pretraining.adversarial import LossController
from isoloss.pretraining.descent import AdamW, DescentSettings, GradientRule, check_optimiser
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
        check_optimiser(self.optimiser)
        if not (math.isfinite(self.noise) and self.noise > 0):
            raise BadInput(
                f"the noise's deviation must be a positive number, not {self.noise}; without noise train by "
                "the optimiser itself"
            )

    def build(self, training: Training) -> GradientRule:
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
        FlatnessRegularised(self.noise, self.optimiser)  # rejects noise of no size, and other rules
        self.controller()

    def controller(self) -> LossController:
        """A new controller of λ."""
        return LossController(self.loss_window, self.strength, self.smoothing)

    def build(self, training: Training) -> "SharpeningRule":
        return SharpeningRule(self, training)


class SharpeningRule:
    """The `UpdateRule` of `Sharpened`."""

    def __init__(self, settings: Sharpened, training: Training) -> None:
        self.settings, self.training = settings, training
        self.weights: list[Tensor] = [w for w in training.model.parameters() if w.requires_grad]
        self.descent = settings.optimiser.descent(training)
        self.controller = settings.controller()

    def step(self, batch: Batch, step: int) -> Float[Tensor, ""]:
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
        return dict(self.controller.last)

    def state_dict(self) -> dict[str, Any]:
        return {"descent": self.descent.state_dict(), "controller": self.controller.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.descent.load_state_dict(state["descent"])
        self.controller.load_state_dict(state["controller"])


def weight_noise(weights: list[Tensor], seed: int, pair: int) -> list[Tensor]:
    """Standard normal noise in the weights' shapes: a function of the run's seed and the pair's index."""
    device, dtype = weights[0].device, weights[0].dtype
    generator = torch.Generator(device).manual_seed(derived_seed(seed, "weight noise", pair))
    sizes = [weight.numel() for weight in weights]
    pieces = torch.split(torch.randn(sum(sizes), generator=generator, device=device, dtype=dtype), sizes)
    return [piece.view_as(weight) for piece, weight in zip(pieces, weights, strict=True)]


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
        check_optimiser(self.optimiser)
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
