"""An optimiser with its learning rate's warm-up: what makes an update of gradients."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from torch.optim import Optimizer

from isoloss.pretraining.update_rule import Training
from isoloss.pretraining.warm_up import check_warm_up, warmed_up


class Descent:
    """Updates parameters from the gradients they hold, by optimisers that each own some of them.

    Every parameter group keeps the learning rate it was made with, scaled by the warm-up. Raises BadInput
    when a run of `steps` would end before the warm-up does.
    """

    def __init__(self, optimisers: Sequence[Optimizer], warm_up_steps: int, steps: int) -> None:
        check_warm_up(warm_up_steps, steps)
        self.optimisers = optimisers
        self.warm_up_steps = warm_up_steps
        groups = [group for optimiser in optimisers for group in optimiser.param_groups]
        self.full_rates: list[float] = [group["lr"] for group in groups]

    def clear(self) -> None:
        """Forget the gradients that the parameters hold."""
        for optimiser in self.optimisers:
            optimiser.zero_grad()

    def set_rates(self, step: int) -> None:
        """Give each group its learning rate of step `step`."""
        groups = [group for optimiser in self.optimisers for group in optimiser.param_groups]
        for group, rate in zip(groups, self.full_rates, strict=True):
            group["lr"] = warmed_up(rate, self.warm_up_steps, step)

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
    """An optimiser's settings, on which rules that choose the gradient themselves are built."""

    def descent(self, training: Training) -> Descent:
        """The optimiser of this training's parameters, with fresh state."""
        ...
