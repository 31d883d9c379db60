"""What a step of training is: the optimiser's update and what it needs of the loop."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from isoloss.languages.sentence_source import SentenceSource
from isoloss.objectives.batch import Batch, Objective


@runtime_checkable
class UpdateRule(Protocol):
    """Turns batches into updates of the model it was built for; owns optimiser and learning rate."""

    def step(self, batch: Batch, step: int) -> Float[Tensor, ""]:
        """Update the model's parameters once from a fresh batch; steps count from 1.

        Returns the batch's loss in nats before the update, detached and on the model's device. What is
        random draws from the global generators, which the loop seeds for each step, or from `step` and the
        seed the rule was built with; so a step is a function of the model, the rule's state, and `step`.
        """
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that later steps depend on besides the model: tensors, numbers, lists and dicts."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        ...


@dataclass(frozen=True)
class Training:
    """What a rule may build on: the model it updates, what is predicted, and where more data comes from.

    A rule that trains on more than the batch (the adversarial rule on tasks) draws it from `language`, with
    seeds derived from `seed`, and refuses one that has no such thing.
    """

    model: nn.Module
    objective: Objective
    language: SentenceSource
    seed: int


@runtime_checkable
class UpdateRuleSettings(Protocol):
    """A frozen dataclass of numbers and strings from which a rule is built; part of a run's digest."""

    def build(self, training: Training) -> UpdateRule:
        """A rule for this training, with fresh state."""
        ...
