"""Optimisers with learning-rate schedules, checks of their settings, and the rule for gradients."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch
from isoloss.pretraining.update_rule import Training
from isoloss.results.store import ONLY_WHEN_CHANGED

Decay = Literal["none", "linear", "cosine"]
"""What the rate does after the warm-up: stay (the paper), fall linearly (its released code), or as a cosine
(Loshchilov and Hutter 2017), which stays high for longer and ends more gently."""


class Descent:
    """Updates parameters from their gradients, with optimisers that each own some of them.

    Every parameter group keeps its initial learning rate, scaled by the warm-up and the decay. Raises
    BadInput when a run of `steps` would end before the warm-up does.
    """

    def __init__(
        self, optimisers: Sequence[Optimizer], warm_up_steps: int, steps: int, decay: Decay = "none"
    ) -> None:
        if warm_up_steps > steps:
            raise BadInput(
                f"the warm-up of {warm_up_steps} steps is longer than the run of {steps}; shorten the "
                "warm-up or lengthen the run"
            )
        self.steps, self.decay = steps, decay
        self.optimisers = optimisers
        self.warm_up_steps = warm_up_steps
        groups = [group for optimiser in optimisers for group in optimiser.param_groups]
        self.full_rates: list[float] = [group["lr"] for group in groups]

    def clear(self) -> None:
        """Clear the parameters' gradients."""
        for optimiser in self.optimisers:
            optimiser.zero_grad()

    def set_rates(self, step: int) -> None:
        """Set each group's learning rate for step `step`."""
        groups = [group for optimiser in self.optimisers for group in optimiser.param_groups]
        for group, rate in zip(groups, self.full_rates, strict=True):
            group["lr"] = scheduled_rate(rate, self.warm_up_steps, self.steps, step, self.decay)

    def update(self, step: int) -> None:
        """Step `step` of every optimiser."""
        self.set_rates(step)
        for optimiser in self.optimisers:
            optimiser.step()

    def state_dict(self) -> dict[str, Any]:
        """The optimisers' states."""
        return {"optimisers": [optimiser.state_dict() for optimiser in self.optimisers]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        for optimiser, its_state in zip(self.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(its_state)


@runtime_checkable
class DescentSettings(Protocol):
    """The settings of an optimiser, used by rules that compute the gradient themselves."""

    def descent(self, training: Training) -> Descent:
        """The optimiser of this training's parameters, with newly initialised state."""
        ...


def check_optimiser(optimiser: object) -> None:
    """Raise BadInput for an update rule that is no optimiser of a gradient given to it."""
    if not isinstance(optimiser, DescentSettings):
        raise BadInput(
            f"{type(optimiser).__name__} chooses its own gradient, and cannot be the optimiser of another "
            "rule; give AdamW, SGD, Lion, SOAP or Muon"
        )


def warmed_up(learning_rate: float, warm_up_steps: int, step: int) -> float:
    """Linear warm-up to `learning_rate` at step `warm_up_steps`, then constant (paper A.5).

    It is constant so that a run's checkpoints are comparable and training can continue from each.

    >>> [warmed_up(1e-3, 4, step) for step in (1, 2, 4, 9)]
    [0.00025, 0.0005, 0.001, 0.001]
    """
    return learning_rate * min(1.0, step / warm_up_steps) if warm_up_steps else learning_rate


def scheduled_rate(learning_rate: float, warm_up_steps: int, steps: int, step: int, decay: Decay) -> float:
    """As `warmed_up`; with a decay, down to 0 one step after the run's last, as a line or half a cosine.

    >>> [scheduled_rate(1.0, 2, 5, step, "linear") for step in range(1, 6)]
    [0.5, 1.0, 0.75, 0.5, 0.25]
    >>> [round(scheduled_rate(1.0, 2, 5, step, "cosine"), 3) for step in range(1, 6)]
    [0.5, 1.0, 0.854, 0.5, 0.146]
    """
    warm = warmed_up(learning_rate, warm_up_steps, step)
    if decay == "none" or step <= warm_up_steps:
        return warm
    left = (steps + 1 - step) / (steps + 1 - warm_up_steps)
    return warm * (left if decay == "linear" else (1 - math.cos(math.pi * left)) / 2)


class GradientRule:
    """An `UpdateRule` in which `gradient` computes the parameters' gradients and `descent` makes the update.

    `gradient` is called with cleared gradients, the batch and the step, and returns the detached loss
    (`UpdateRule.step`). `fixed` are readings that stay the same for the whole run.
    """

    def __init__(
        self,
        descent: Descent,
        gradient: Callable[[Batch, int], Tensor],
        fixed: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.descent = descent
        self.gradient = gradient
        self.fixed = fixed

    def step(self, batch: Batch, step: int) -> Float[Tensor, ""]:
        self.descent.clear()
        loss = self.gradient(batch, step)
        self.descent.update(step)
        return loss

    def readings(self) -> dict[str, float]:
        """See `UpdateRule.readings`: those that are fixed."""
        return dict(self.fixed)

    def state_dict(self) -> dict[str, Any]:
        return self.descent.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.descent.load_state_dict(state)


def plain_rule(
    training: Training, descent: Descent, fixed: Mapping[str, float] = MappingProxyType({})
) -> GradientRule:
    """The rule that uses the batch's gradient unchanged."""
    return GradientRule(descent, lambda batch, _: training.add_gradient(batch), fixed)


def check_rate_and_decay(learning_rate: float, weight_decay: float) -> None:
    """Raise BadInput unless both are finite, the rate is positive, and the decay is not negative."""
    if not (math.isfinite(learning_rate) and learning_rate > 0):
        raise BadInput(f"the learning rate must be a positive number, not {learning_rate}")
    if not (math.isfinite(weight_decay) and weight_decay >= 0):
        raise BadInput(f"weight decay must be a number of at least 0, not {weight_decay}")


def check_momentum(momentum: float) -> None:
    """Raise BadInput unless it is in [0, 1)."""
    if not 0 <= momentum < 1:
        raise BadInput(f"momentum must be at least 0 and below 1, not {momentum}")


def check_moments(first_beta: float, second_beta: float, warm_up_steps: int) -> None:
    """Raise BadInput for decay rates of the gradient's moments not in [0, 1), or a negative warm-up."""
    if warm_up_steps < 0:
        raise BadInput(f"the number of warm-up steps must be 0 or more, not {warm_up_steps}")
    if not (0 <= first_beta < 1 and 0 <= second_beta < 1):
        raise BadInput(f"betas must be at least 0 and below 1, not {first_beta} and {second_beta}")


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
        check_rate_and_decay(self.learning_rate, self.weight_decay)
        check_moments(self.first_beta, self.second_beta, self.warm_up_steps)
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise BadInput(f"epsilon must be a number above 0, not {self.epsilon}")

    def descent(self, training: Training) -> Descent:
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
        return plain_rule(training, self.descent(training))


def parameters_by_decay(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Optimiser groups: weight decay for matrices and embeddings, none for vectors (biases and gains)."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [weight for weight in trained if weight.ndim >= 2], "weight_decay": weight_decay},
        {"params": [vector for vector in trained if vector.ndim < 2], "weight_decay": 0.0},
    ]


@dataclass(frozen=True)
class SGD:
    """θ ← θ - η ∇L(θ), with η rising to 1e-3 over the first 12 % of the run's steps, then constant (B.2).

    The warm-up takes ⌈`warm_up_share` · steps⌉ steps, counted from the run's first step even if it starts
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
        trained = [parameter for parameter in training.model.parameters() if parameter.requires_grad]
        # One group without decay, like the state of runs from before decay existed, which can then resume.
        groups = parameters_by_decay(training.model, self.weight_decay) if self.weight_decay else trained
        optimiser = torch.optim.SGD(groups, lr=self.learning_rate, momentum=self.momentum, fused=True)
        return Descent([optimiser], math.ceil(self.warm_up_share * training.steps), training.steps)

    def build(self, training: Training) -> GradientRule:
        return plain_rule(training, self.descent(training))
