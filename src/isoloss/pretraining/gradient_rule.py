"""The update rule of every method that chooses a gradient and leaves the update to an optimiser."""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float
from torch import Tensor

from isoloss.objectives.batch import Batch
from isoloss.pretraining.descent import Descent
from isoloss.pretraining.update_rule import Training


class GradientRule:
    """An `UpdateRule`: `gradient` leaves the parameters holding one, `descent` makes the update.

    `gradient` finds the parameters without gradients, reads the batch and the step, and returns the loss,
    detached (`UpdateRule.step`).
    """

    def __init__(self, descent: Descent, gradient: Callable[[Batch, int], Tensor]) -> None:
        self.descent = descent
        self.gradient = gradient

    def step(self, batch: Batch, step: int) -> Float[Tensor, ""]:
        """See `UpdateRule.step`."""
        self.descent.clear()
        loss = self.gradient(batch, step)
        self.descent.update(step)
        return loss

    def readings(self) -> dict[str, float]:
        """See `UpdateRule.readings`: nothing beside the loss."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """See `UpdateRule.state_dict`."""
        return self.descent.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `UpdateRule.load_state_dict`."""
        self.descent.load_state_dict(state)


def plain_rule(training: Training, descent: Descent) -> GradientRule:
    """The batch's own gradient, as it is."""
    return GradientRule(descent, lambda batch, _: training.add_gradient(batch))
