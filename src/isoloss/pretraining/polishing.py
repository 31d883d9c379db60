"""Descent on soft labels down to a given divergence: models polished so know the same."""

import math
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, soft_target_entropy
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.descent import DescentSettings
from isoloss.pretraining.update_rule import Training


@dataclass(frozen=True)
class Polished:
    """Descends until KL(distribution || model) has fallen to `divergence`, in nats, and then stands still.

    Against soft labels the loss of a batch less their entropy is that KL on the batch itself, without label
    noise. Its average over steps decides, in which a step's weight falls by a factor of `smoothing` at every
    further step, so that the model is somewhat below `divergence` by then: all that are polished alike, by as
    much. Steps before `least_steps` are made in any case: a model that is below `divergence` from the outset
    first moves away, as others do, and then comes back to it. A run that ends first says so by its exact
    loss. `optimiser` makes the updates; with a decay of its rate the KL falls smoothly. Reading:
    `divergence`, the average. Raises BadInput at the first batch without soft labels.
    """

    divergence: float
    optimiser: DescentSettings = field(default_factory=AdamW)
    smoothing: float = 0.95
    least_steps: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.divergence) and self.divergence > 0):
            raise BadInput(f"the divergence to polish down to must be above 0, not {self.divergence}")
        if not 0 <= self.smoothing < 1:
            raise BadInput(f"the smoothing must be at least 0 and below 1, not {self.smoothing}")

    def build(self, training: Training) -> "PolishingRule":
        """See `UpdateRuleSettings.build`."""
        return PolishingRule(self, training)


class PolishingRule:
    """The `UpdateRule` of `Polished`."""

    def __init__(self, settings: Polished, training: Training) -> None:
        self.settings, self.training = settings, training
        self.descent = settings.optimiser.descent(training)
        self.weight, self.average, self.steps = 0.0, 0.0, 0

    def step(self, batch: Batch, step: int) -> Float[Tensor, ""]:
        """See `UpdateRule.step`; once polished, the loss of the batch without an update."""
        self.descent.clear()
        if self.is_polished:
            return soft_target_entropy(batch) + self.divergence
        loss = self.training.add_gradient(batch)
        self._include(float(loss) - float(soft_target_entropy(batch)))
        if not self.is_polished:
            self.descent.update(step)
        return loss

    @property
    def divergence(self) -> float:
        """The average KL of the steps so far, in nats; infinite before the first."""
        return self.average / self.weight if self.weight else math.inf

    @property
    def is_polished(self) -> bool:
        """Whether the average has fallen to what is asked for, after the least number of steps."""
        return self.steps >= self.settings.least_steps and self.divergence <= self.settings.divergence

    def _include(self, divergence: float) -> None:
        kept = self.settings.smoothing
        self.weight = kept * self.weight + 1 - kept
        self.average = kept * self.average + (1 - kept) * divergence
        self.steps += 1

    def readings(self) -> dict[str, float]:
        """See `UpdateRule.readings`."""
        return {"divergence": self.divergence}

    def state_dict(self) -> dict[str, Any]:
        """See `UpdateRule.state_dict`."""
        average = {"weight": self.weight, "average": self.average, "steps": self.steps}
        return {"descent": self.descent.state_dict(), **average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `UpdateRule.load_state_dict`."""
        self.descent.load_state_dict(state["descent"])
        self.weight, self.average, self.steps = state["weight"], state["average"], state["steps"]
