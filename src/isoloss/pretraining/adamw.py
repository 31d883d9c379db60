"""AdamW (Loshchilov and Hutter 2019) with the paper's settings."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import nn

from isoloss.errors import BadInput
from isoloss.pretraining.descent import Decay, Descent, GradientRule, check_moments, plain_rule
from isoloss.pretraining.update_rule import Training
from isoloss.results.store import ONLY_WHEN_CHANGED

A = TypeVar("A")


@dataclass(frozen=True)
class AdamW:
    """The paper's A.5: learning rate 1e-3 after a linear warm-up, betas (0.9, 0.98), weight decay 0.01.

    Unspecified settings are those of the implementation it names (Izsak et al. 2021): epsilon 1e-6, no
    gradient clipping, and weight decay on weight matrices and embeddings but not on biases and layer norms.
    The warm-up is 1,000 steps on generated languages and 5,000 on real text. Without weight decay it is Adam.
    `decay` is the learning-rate decay: "none", so that checkpoints are comparable, the released code's
    "linear", or "cosine". State: two numbers per parameter. Uses torch's fused kernel.
    """

    learning_rate: float = 1e-3
    warm_up_steps: int = 1000
    first_beta: float = 0.9
    second_beta: float = 0.98
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    decay: Decay = field(default="none", metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        check_moments(
            self.learning_rate, self.warm_up_steps, self.first_beta, self.second_beta, self.weight_decay
        )
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise BadInput(f"epsilon must be a number above 0, not {self.epsilon}")

    def descent(self, training: Training) -> Descent:
        """See `DescentSettings.descent`."""
        optimiser = self.optimiser(parameters_by_decay(training.model, self.weight_decay))
        return Descent([optimiser], self.warm_up_steps, training.steps, self.decay)

    def optimiser(self, groups: list[dict[str, Any]]) -> torch.optim.AdamW:
        """torch's optimiser for these parameters, where each group has its own weight decay."""
        return torch.optim.AdamW(
            groups,
            lr=self.learning_rate,
            betas=(self.first_beta, self.second_beta),
            eps=self.epsilon,
            fused=True,
        )

    def build(self, training: Training) -> GradientRule:
        """See `UpdateRuleSettings.build`."""
        return plain_rule(training, self.descent(training))


def parameters_by_decay(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Optimiser groups: weight decay for matrices and embeddings, none for vectors (biases and gains)."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [weight for weight in trained if weight.ndim >= 2], "weight_decay": weight_decay},
        {"params": [vector for vector in trained if vector.ndim < 2], "weight_decay": 0.0},
    ]


def without_regularisation(architecture: A, rule: AdamW) -> tuple[A, AdamW]:
    """The architecture with dropout 0 and the rule with weight decay 0 (Section 2.2, "-dropout-WD").

    Raises BadInput for an architecture without dropout.

    >>> from isoloss.models.transformers import laptop_shape
    >>> from isoloss.models.transformers import PreLayerNormTransformer
    >>> architecture, rule = without_regularisation(PreLayerNormTransformer(laptop_shape(16)), AdamW())
    >>> architecture.dropout, rule.weight_decay, rule.learning_rate
    (0.0, 0.0, 0.001)
    """
    settings: Any = architecture
    if not hasattr(settings, "dropout"):
        raise BadInput(
            f"{type(architecture).__name__} has no dropout to switch off; set the rule's weight decay to 0"
        )
    bare: A = replace(settings, dropout=0.0)
    return bare, replace(rule, weight_decay=0.0)
