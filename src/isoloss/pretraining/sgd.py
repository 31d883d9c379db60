"""Stochastic gradient descent as in the paper's B.2."""

import math
from dataclasses import dataclass, field

import torch

from isoloss.errors import BadInput
from isoloss.pretraining.adamw import parameters_by_decay
from isoloss.pretraining.descent import (
    Descent,
    GradientRule,
    check_momentum,
    check_rate_and_decay,
    plain_rule,
)
from isoloss.pretraining.update_rule import Training
from isoloss.results.store import ONLY_WHEN_CHANGED


@dataclass(frozen=True)
class SGD:
    """θ ← θ - η ∇L(θ), with η rising to 1e-3 over the first 12 % of the run's steps, then constant (B.2).

    The warm-up takes ⌈`warm_up_share` · steps⌉ steps, counted from the run's own first step even if it starts
    from a checkpoint. With momentum μ, v ← μ v + ∇L and θ ← θ - η v (torch's heavy ball). Weight decay adds
    λθ to the gradient of matrices and embeddings; the paper has none. A rate near the edge of stability is
    measured by `edge_of_stability_rate`.
    """

    learning_rate: float = 1e-3
    warm_up_share: float = 0.12
    momentum: float = 0.0
    weight_decay: float = field(default=0.0, metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        check_rate_and_decay(self.learning_rate, self.weight_decay)
        if not 0 <= self.warm_up_share <= 1:
            raise BadInput(
                f"the warm-up's share of the run must lie between 0 and 1, not {self.warm_up_share}"
            )
        check_momentum(self.momentum)

    def descent(self, training: Training) -> Descent:
        """See `DescentSettings.descent`."""
        trained = [parameter for parameter in training.model.parameters() if parameter.requires_grad]
        # One group without decay, like the state of runs from before decay existed, which can then resume.
        groups = parameters_by_decay(training.model, self.weight_decay) if self.weight_decay else trained
        optimiser = torch.optim.SGD(groups, lr=self.learning_rate, momentum=self.momentum, fused=True)
        return Descent([optimiser], math.ceil(self.warm_up_share * training.steps), training.steps)

    def build(self, training: Training) -> GradientRule:
        """See `UpdateRuleSettings.build`."""
        return plain_rule(training, self.descent(training))
