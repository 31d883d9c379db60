"""AdamW (Loshchilov and Hutter 2019) with the paper's settings."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective, sentence_averaged_loss
from isoloss.pretraining.update_rule import Training
from isoloss.pretraining.warm_up import warmed_up


@dataclass(frozen=True)
class AdamW:
    """The paper's A.5: learning rate 1e-3 after a linear warm-up, betas (0.9, 0.98), weight decay 0.01.

    What the paper leaves open is as in the implementation it names (Izsak et al. 2021): epsilon 1e-6, no
    gradient clipping, and weight decay on weight matrices and embeddings but not on biases and layer norms.
    The warm-up is 1,000 steps on generated languages and 5,000 on real text.
    """

    learning_rate: float = 1e-3
    warm_up_steps: int = 1000
    first_beta: float = 0.9
    second_beta: float = 0.98
    epsilon: float = 1e-6
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise BadInput(f"the learning rate must be a positive number, not {self.learning_rate}")
        if self.warm_up_steps < 0:
            raise BadInput(f"the number of warm-up steps must be 0 or more, not {self.warm_up_steps}")
        if not (0 <= self.first_beta < 1 and 0 <= self.second_beta < 1):
            raise BadInput(
                f"betas must be at least 0 and below 1, not {self.first_beta} and {self.second_beta}"
            )
        if not (self.epsilon > 0 and math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise BadInput(
                f"epsilon must be above 0 and weight decay at least 0, not {self.epsilon} and "
                f"{self.weight_decay}"
            )

    def build(self, training: Training) -> "AdamWRule":
        """See `UpdateRuleSettings.build`."""
        return AdamWRule(self, training.model, training.objective)


class AdamWRule:
    """AdamW's `UpdateRule`, torch's fused kernel underneath; two numbers of state a parameter."""

    def __init__(self, settings: AdamW, model: nn.Module, objective: Objective) -> None:
        self.settings = settings
        self.model = model
        self.objective = objective
        self.optimiser = torch.optim.AdamW(
            parameters_by_decay(model, settings.weight_decay),
            lr=settings.learning_rate,
            betas=(settings.first_beta, settings.second_beta),
            eps=settings.epsilon,
            fused=True,
        )

    def step(self, batch: Batch, step: int) -> Float[Tensor, ""]:
        """See `UpdateRule.step`."""
        rate = warmed_up(self.settings.learning_rate, self.settings.warm_up_steps, step)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        loss = sentence_averaged_loss(self.objective.logits(self.model, batch), batch)
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return loss.detach()

    def state_dict(self) -> dict[str, Any]:
        """See `UpdateRule.state_dict`."""
        return self.optimiser.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `UpdateRule.load_state_dict`."""
        self.optimiser.load_state_dict(state)


def parameters_by_decay(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Optimiser groups: matrices and embeddings decay; biases and gains, which are vectors, do not."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [weight for weight in trained if weight.ndim >= 2], "weight_decay": weight_decay},
        {"params": [vector for vector in trained if vector.ndim < 2], "weight_decay": 0.0},
    ]
