"""The training loss since the last checkpoint, read from the device only occasionally."""

import math

import torch
from torch import Tensor

from isoloss.errors import IsolossError


class TrainingLoss:
    """Collects each step's loss and settles them together; stops a run whose loss is not finite.

    Sums step by step in float64, so the mean does not depend on when it is settled.

    >>> losses = TrainingLoss(seed=0, first_step=1)
    >>> losses.add(torch.tensor(1.5)); losses.add(torch.tensor(0.5)); losses.settle()
    1.0
    >>> losses.add(torch.tensor(float("nan"))); losses.settle()
    Traceback (most recent call last):
    isoloss.errors.IsolossError: the loss is nan at step 3 of the run with seed 0; ...
    """

    def __init__(self, seed: int, first_step: int) -> None:
        self.seed = seed
        self.next_step = first_step
        self.total = 0.0
        self.count = 0
        self.waiting: list[Tensor] = []

    def add(self, loss: Tensor) -> None:
        """Record the next step's loss, without waiting for the device."""
        self.waiting.append(loss)

    def settle(self) -> float:
        """Mean loss in nats of the steps recorded since the last call.

        Raises IsolossError naming the first step whose loss is infinite or not a number.
        """
        values: list[float] = torch.stack(self.waiting).tolist()
        self.waiting.clear()
        for value in values:
            if not math.isfinite(value):
                raise diverged(f"the loss is {value}", self.next_step, self.seed)
            self.total += value
            self.count += 1
            self.next_step += 1
        return sum(values) / len(values)

    def since_checkpoint(self) -> float:
        """Mean loss in nats of all settled steps since the last call of this."""
        mean = self.total / self.count
        self.total, self.count = 0.0, 0
        return mean


def diverged(what: str, step: int, seed: int) -> IsolossError:
    """The error of a run that cannot go on."""
    return IsolossError(
        f"{what} at step {step} of the run with seed {seed}; its checkpoints up to there are kept: lower "
        "the learning rate or lengthen the warm-up, and train in another folder"
    )
