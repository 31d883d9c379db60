"""TensorBoard, Weights & Biases and trackio, through accelerate's trackers."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import torch
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.pretraining.specification import PretrainingSpecification, settings_as_json
from isoloss.pretraining.update_rule import UpdateRule
from isoloss.results.checkpoint import Checkpoint
from isoloss.results.record import settings_by_path

Log = Callable[[dict[str, float], int], None]
"""Takes numbers by name, and the step that they belong to."""


class Tracked:
    """For `pretrain`: logs every `every` steps with its `at_step`, and checkpoints with its `at_checkpoint`.

    Every `every` steps it logs `loss`, the mean in nats over the steps since it was last logged in this call
    of `pretrain`, and the rule's readings at that step, such as `lambda`; at a checkpoint, `checkpoint_loss`,
    its training loss, and its readings. `log` is any function: `opened_tracker` provides one for TensorBoard,
    Weights & Biases and trackio. Raises BadInput for `every` below 1.

    >>> from isoloss.pretraining.descent import Descent
    >>> from isoloss.pretraining.descent import GradientRule
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
        """Record the step's loss; log when due, which is the only time that waits for the device."""
        self.waiting.append(loss)
        if step % self.every == 0:
            mean = float(torch.stack(self.waiting).double().mean())
            self.waiting.clear()
            self.log({"loss": mean, **rule.readings()}, step)

    def at_checkpoint(self, checkpoint: Checkpoint, model: nn.Module) -> None:
        """Log the checkpoint's numbers."""
        self.log({"checkpoint_loss": checkpoint.training_loss, **checkpoint.readings}, checkpoint.step)


@contextmanager
def opened_tracker(tracker: Any, specification: PretrainingSpecification) -> Iterator[Log]:
    """Start the tracker's run with the specification's settings, and finish it when the block ends.

    `tracker` is any accelerate `GeneralTracker`. If several processes train, only the main one opens it.

        with opened_tracker(TensorBoardTracker("width 64", logging_dir=folder), specification) as log:
            tracked = Tracked(log, every=100)
            pretrain(..., at_step=tracked.at_step, at_checkpoint=tracked.at_checkpoint)
    """
    from accelerate import PartialState  # takes a second, which only those who track should wait for

    PartialState()  # accelerate's trackers do not log before it has set up its processes
    with redirect_stdout(sys.stderr):  # where a tracker's messages are not part of a command's result
        tracker.start()
    try:
        tracker.store_init_configuration(settings_by_path(settings_as_json(specification)))
        yield lambda numbers, step: tracker.log(numbers, step=step)
    finally:
        with redirect_stdout(sys.stderr):
            tracker.finish()
