"""Averages along a run: of the weights over its steps, and of the training loss between two checkpoints."""

import copy
import math

import torch
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.errors import IsolossError


class WeightAverage:
    """A copy of a model that holds the running average of its weights after each step.

    After step t, with θ_t the weights and h the horizon in steps,

        average_t = average_{t-1} + (θ_t - average_{t-1}) / min(t, h) :

    the plain mean of all steps until there are h of them, so that the initial weights are not retained for
    longer than others, and from then on the exponential average with decay 1 - 1/h (Polyak averaging as in
    torch.optim.swa_utils.AveragedModel), in which a step's weight falls by a factor of e in h further steps.

    It has the precision of the weights. Tied parameters are tied in the copy and averaged once; buffers are
    those of the model, not averaged. The average depends only on the weights and t: with both, training
    resumes from any step with bit-identical results.

    >>> from isoloss.models.transformers import laptop_shape
    >>> from isoloss.models.transformers import PreLayerNormTransformer
    >>> model = PreLayerNormTransformer(laptop_shape(16)).build(12, 8, seed=0)
    >>> average = WeightAverage(model, horizon=4)
    >>> for step, value in enumerate((1.0, 2.0, 6.0), start=1):
    ...     _ = model.get_input_embeddings().weight.data.fill_(value)
    ...     average.update(step)
    >>> average.model.get_input_embeddings().weight[0, 0].item()
    3.0
    """

    def __init__(self, model: PreTrainedModel, horizon: int) -> None:
        self.model: PreTrainedModel = copy.deepcopy(model)
        self._horizon = horizon
        # Listed once: walking over the modules at each step would take longer than the average itself.
        self._averages, self._weights = list(self.model.parameters()), list(model.parameters())
        self._copies, self._buffers = list(self.model.buffers()), list(model.buffers())

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Add the model's weights after `step`, counted from 1."""
        torch._foreach_lerp_(self._averages, self._weights, 1 / min(step, self._horizon))
        for held, buffer in zip(self._copies, self._buffers, strict=True):
            held.copy_(buffer)


class TrainingLoss:
    """Collects each step's loss and settles them together; stops a run whose loss is not finite.

    Sums step by step in float64, so the mean does not depend on when it is settled. Where no step was taken
    since, as of a rule that `ComesToRest`, a mean is the one before, which is `so_far` at first.

    >>> losses = TrainingLoss(seed=0, first_step=1)
    >>> losses.add(torch.tensor(1.5)); losses.add(torch.tensor(0.5)); losses.settle()
    1.0
    >>> losses.add(torch.tensor(float("nan"))); losses.settle()
    Traceback (most recent call last):
    isoloss.pretraining.running_averages.Diverged: the loss is nan at step 3 of the run with seed 0; ...
    """

    def __init__(self, seed: int, first_step: int, so_far: float = math.nan) -> None:
        self.seed = seed
        self.next_step = first_step
        self.settled = self.at_checkpoint = so_far
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
        values: list[float] = torch.stack(self.waiting).tolist() if self.waiting else []
        self.waiting.clear()
        for value in values:
            if not math.isfinite(value):
                raise diverged(f"the loss is {value}", self.next_step, self.seed)
            self.total += value
            self.count += 1
            self.next_step += 1
        if values:
            self.settled = sum(values) / len(values)
        return self.settled

    def since_checkpoint(self) -> float:
        """Mean loss in nats of all settled steps since the last call of this."""
        if self.count:
            self.at_checkpoint = self.total / self.count
        self.total, self.count = 0.0, 0
        return self.at_checkpoint


class Diverged(IsolossError):
    """Of a run that cannot go on; `reason` is what happened, without what is left of the run."""

    reason: str = ""


def diverged(what: str, step: int, seed: int) -> Diverged:
    """The error of a run that cannot go on."""
    reason = f"{what} at step {step} of the run with seed {seed}"
    error = Diverged(
        f"{reason}; its checkpoints up to there are kept: lower the learning rate or lengthen the warm-up, "
        "and train in another folder"
    )
    error.reason = reason
    return error
