"""A run's loss and its rule's readings, handed to an experiment tracker as training goes."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.pretraining.checkpoint import Checkpoint
from isoloss.pretraining.update_rule import UpdateRule

Log = Callable[[dict[str, float], int], None]
"""Takes numbers by name, and the step that they belong to."""


class Tracked:
    """For `pretrain`: logs every `every` steps by its `at_step`, checkpoints by its `at_checkpoint`.

    Every so many steps `loss`, the mean in nats over the steps since it was last logged in this call of
    `pretrain`, and the rule's readings at that step, such as `lambda`; at a checkpoint `checkpoint_loss`,
    its training loss, and its readings. `log` is any function: `opened_tracker` gives one for TensorBoard,
    Weights & Biases and trackio. Raises BadInput for `every` below 1.

    >>> from isoloss.pretraining.descent import Descent
    >>> from isoloss.pretraining.gradient_rule import GradientRule
    >>> rule = GradientRule(Descent([], warm_up_steps=0, steps=3), lambda batch, step: torch.zeros(()))
    >>> tracked = Tracked(lambda numbers, step: print(step, numbers), every=2)
    >>> for step, loss in enumerate((3.0, 2.0, 1.5), start=1):
    ...     tracked.at_step(step, torch.tensor(loss), rule)
    2 {'loss': 2.5}
    """

    def __init__(self, log: Log, every: int = 100) -> None:
        if every < 1:
            raise BadInput(f"a tracker is told every so many steps, at least 1, not {every}")
        self.log = log
        self.every = every
        self.waiting: list[Tensor] = []

    def at_step(self, step: int, loss: Tensor, rule: UpdateRule) -> None:
        """Note the step's loss; log when it is time, the only moment that waits for the device."""
        self.waiting.append(loss)
        if step % self.every == 0:
            mean = float(torch.stack(self.waiting).double().mean())
            self.waiting.clear()
            self.log({"loss": mean, **rule.readings()}, step)

    def at_checkpoint(self, checkpoint: Checkpoint, model: nn.Module) -> None:  # noqa: ARG002
        """Log the checkpoint's own numbers."""
        self.log({"checkpoint_loss": checkpoint.training_loss, **checkpoint.readings}, checkpoint.step)
