"""Sophia with the Gauss-Newton-Bartlett estimate (Liu et al. 2023), pytorch-optimizer's update."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, sentence_averaged_loss
from isoloss.pretraining.adamw import parameters_by_decay
from isoloss.pretraining.descent import Descent, check_moments
from isoloss.pretraining.peer_optimisers import pytorch_optimizer
from isoloss.pretraining.update_rule import Training


@dataclass(frozen=True)
class Sophia:
    """θ ← θ - η clip(m / max(γ h, ε), 1), where h is a running mean of Hessian-diagonal estimates.

    Sophia-G: every `estimate_steps` steps, labels are sampled from the model itself, and the square of the
    resulting gradient, summed over predictions, is an unbiased estimate of the Fisher's diagonal. (Sophia-H
    needs second derivatives instead, which fused attention lacks.) With several processes, each estimates on
    its own sentences, and the average is also unbiased. `clipping` is γ. Weight decay as in `AdamW`, on
    matrices only. State: three numbers per parameter.
    """

    learning_rate: float = 1e-3
    warm_up_steps: int = 1000
    first_beta: float = 0.96
    second_beta: float = 0.99
    clipping: float = 0.05
    weight_decay: float = 0.1
    estimate_steps: int = 10

    def __post_init__(self) -> None:
        check_moments(
            self.learning_rate, self.warm_up_steps, self.first_beta, self.second_beta, self.weight_decay
        )
        if not 0 < self.clipping < math.inf:
            raise BadInput(f"Sophia's clipping γ must be a positive number, not {self.clipping}")
        if self.estimate_steps < 1:
            raise BadInput(
                f"Sophia's Hessian must be estimated every so many steps, at least 1, not "
                f"{self.estimate_steps}"
            )

    def build(self, training: Training) -> "SophiaRule":
        """See `UpdateRuleSettings.build`."""
        training.refuse_micro_batches("Sophia")
        # The package clips m / h at p and multiplies by its rate: p = γ and η / γ make it the paper's.
        optimiser = pytorch_optimizer().SophiaH(
            parameters_by_decay(training.model, self.clipping * self.weight_decay),
            lr=self.learning_rate / self.clipping,
            betas=(self.first_beta, self.second_beta),
            p=self.clipping,
            update_period=self.estimate_steps,
        )
        return SophiaRule(
            self.estimate_steps, training, optimiser, Descent([optimiser], self.warm_up_steps, training.steps)
        )


class SophiaRule:
    """Sophia's `UpdateRule`."""

    def __init__(self, estimate_steps: int, training: Training, optimiser: Any, descent: Descent) -> None:
        self.estimate_steps = estimate_steps
        self.training = training
        self.optimiser = optimiser
        self.descent = descent

    def step(self, batch: Batch, step: int) -> Float[Tensor, ""]:
        """See `UpdateRule.step`."""
        own, weight = self.training.own(batch)
        logits = self.training.objective.logits(self.training.model, own)
        loss = weight * sentence_averaged_loss(logits, own)
        estimated = (step - 1) % self.estimate_steps == 0
        self.descent.clear()
        self.training.backward(loss, keep_graph=estimated)
        self.descent.set_rates(step)
        self.optimiser.step(hessian=self._fisher_diagonal(logits, own, weight) if estimated else None)
        return self.training.averaged(loss)

    def _fisher_diagonal(self, logits: Float[Tensor, "m v"], own: Batch, weight: float) -> list[Tensor]:
        parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        diagonal = [weight * square for square in fisher_diagonal(logits, own, parameters)]
        self.training.processes.average(diagonal)
        return diagonal

    def readings(self) -> dict[str, float]:
        """See `UpdateRule.readings`: nothing beside the loss."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """See `UpdateRule.state_dict`."""
        return self.descent.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `UpdateRule.load_state_dict`."""
        self.descent.load_state_dict(state)


def fisher_diagonal(
    logits: Float[Tensor, "m v"], batch: Batch, parameters: list[nn.Parameter]
) -> list[Tensor]:
    """An unbiased sample of the Fisher's diagonal for the sentence-averaged loss, by one backward pass.

    It is (∇ Σ_j √w_j log f_j(y_j))², with y_j drawn from f_j by the global generator and w_j the weight of
    prediction j in the loss; since scores are independent with mean zero, cross terms vanish in the mean.
    """
    labels = torch.multinomial(logits.detach().softmax(dim=1), 1)[:, 0]
    losses = nn.functional.cross_entropy(logits, labels, reduction="none")
    counts = torch.bincount(batch.rows, minlength=len(batch)).to(losses.dtype)
    total = (losses / (counts[batch.rows] * len(batch)).sqrt()).sum()
    gradients = torch.autograd.grad(total, parameters, materialize_grads=True)
    return [gradient.square() for gradient in gradients]
