"""Descent on soft labels down to a given divergence: models polished so know the same."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, sentence_average, soft_target_entropy
from isoloss.objectives.evaluation import device_of, evaluation_mode
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.pretraining.descent import AdamW, DescentSettings, check_optimiser
from isoloss.pretraining.update_rule import Training
from isoloss.results.store import ONLY_WHEN_CHANGED
from isoloss.seeds import derived_seed

HALVINGS = 6
"""Of the way between the last two looks, at whose end KL is below the divergence asked for."""


@dataclass(frozen=True)
class Polished:
    """Descends until KL(distribution || model) has fallen to `divergence`, in nats, and then stands still.

    Against soft labels the loss of a batch less their entropy is that KL on the batch itself, without label
    noise. Its average over steps, in which a step's weight falls by a factor of `smoothing` at every further
    step, lags behind: a model whose KL falls fast ends lower than one whose KL falls slowly. Hence, with
    `held_out` sentences, fixed ones of the run's language, their own KL decides, asked for every
    `asked_every` steps where a batch's is at most `asked_below` times the divergence; the weights are then
    those on the straight way from the look before, where it was still above, at which it is `divergence`, or
    those of the first look if it is below already: a model whose KL falls fast needs a larger `asked_below`,
    or `goes_back`, by which weights are kept every `asked_every` steps to go back to, and the first ones too,
    whether they are looked at or not, from `least_steps` on. Without any, the average decides.

    Steps before `least_steps` are made in any case: a model that is below `divergence` from the outset first
    moves away, as others do, and then comes back to it. A run that ends first says so by its exact loss.
    `optimiser` makes the updates; with a decay of its rate the KL falls smoothly. A run of several `cycles`
    warms up and decays in each of them, which are equally long (warm restarts, Loshchilov and Hutter 2017):
    most models arrive in the first, and those that do not have another. Reading: `divergence`, the average.
    Raises BadInput for steps that are not a multiple of the cycles, and at the first batch without soft
    labels.
    """

    divergence: float
    optimiser: DescentSettings = field(default_factory=AdamW)
    smoothing: float = 0.95
    least_steps: int = 0
    held_out: int = field(default=0, metadata=ONLY_WHEN_CHANGED)
    asked_every: int = field(default=10, metadata=ONLY_WHEN_CHANGED)
    cycles: int = field(default=1, metadata=ONLY_WHEN_CHANGED)
    asked_below: float = field(default=2.0, metadata=ONLY_WHEN_CHANGED)
    goes_back: bool = field(default=False, metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        check_optimiser(self.optimiser)
        if not (math.isfinite(self.divergence) and self.divergence > 0):
            raise BadInput(f"the divergence to polish down to must be above 0, not {self.divergence}")
        if not 0 <= self.smoothing < 1:
            raise BadInput(f"the smoothing must be at least 0 and below 1, not {self.smoothing}")
        if self.held_out < 0:
            raise BadInput(f"the number of held-out sentences must be 0 or more, not {self.held_out}")
        if self.asked_every < 1:
            raise BadInput(f"held-out sentences must be asked every 1 step or more, not {self.asked_every}")
        if not self.asked_below >= 1:
            raise BadInput(
                f"held-out sentences are asked below 1 or more times the divergence, not {self.asked_below}"
            )
        if self.cycles < 1:
            raise BadInput(f"the number of cycles must be 1 or more, not {self.cycles}")

    def build(self, training: Training) -> "PolishingRule":
        if training.steps % self.cycles:
            raise BadInput(
                f"{training.steps} steps cannot be divided into {self.cycles} equal cycles; give a multiple"
            )
        return PolishingRule(self, training)


class PolishingRule:
    """The `UpdateRule` of `Polished`; it `ComesToRest` once KL has fallen."""

    def __init__(self, settings: Polished, training: Training) -> None:
        self.settings, self.training = settings, training
        self.steps_a_cycle = training.steps // settings.cycles
        self.descent = settings.optimiser.descent(replace(training, steps=self.steps_a_cycle))
        self.weight, self.average, self.steps = 0.0, 0.0, 0
        self.is_at_rest = False
        self.before: list[Tensor] = []
        """Weights to go back to, most often those at the last look at the held-out sentences."""

    def step(self, batch: Batch, step: int) -> Float[Tensor, ""]:
        """See `UpdateRule.step`; once polished, the loss of the batch without an update."""
        self.descent.clear()
        if self.is_at_rest:
            return soft_target_entropy(batch) + self.divergence
        loss = self.training.add_gradient(batch)
        divergence, smoothing = float(loss) - float(soft_target_entropy(batch)), self.settings.smoothing
        self.weight = smoothing * self.weight + 1 - smoothing
        self.average = smoothing * self.average + (1 - smoothing) * divergence
        self.steps += 1
        self.is_at_rest = self._has_arrived(divergence)
        if not self.is_at_rest:
            self.descent.update((step - 1) % self.steps_a_cycle + 1)
        return loss

    @property
    def divergence(self) -> float:
        """The average KL of the steps so far, in nats; infinite before the first."""
        return self.average / self.weight if self.weight else math.inf

    def _has_arrived(self, of_batch: float) -> bool:
        """Whether KL has fallen to what is asked for, after the least number of steps."""
        wanted = self.settings.divergence
        if self.steps < self.settings.least_steps:
            return False
        if not self.settings.held_out:
            return self.divergence <= wanted
        is_due = self.steps % self.settings.asked_every == 0
        is_asked = is_due and of_batch <= self.settings.asked_below * wanted
        if is_asked and mean_divergence(self.training, self._held_out) <= wanted:
            self._go_back_to(wanted)
            return True
        if is_asked or (self.settings.goes_back and (is_due or self.steps == 1)):
            self.before = [weight.detach().clone() for weight in self.training.model.parameters()]
        return False

    def _go_back_to(self, wanted: float) -> None:
        """Bisect the way from the last look for the weights at which the held-out KL is `wanted`."""
        after = [weight.detach().clone() for weight in self.training.model.parameters()]
        low, high = 0.0, 1.0
        for _ in range(HALVINGS if self.before else 0):
            middle = (low + high) / 2
            self._stand_between(after, middle)
            if mean_divergence(self.training, self._held_out) <= wanted:
                high = middle
            else:
                low = middle
        self._stand_between(after, high)
        self.before = []

    @torch.no_grad()
    def _stand_between(self, after: list[Tensor], share: float) -> None:
        for weight, old, new in zip(self.training.model.parameters(), self.before, after, strict=False):
            weight.copy_(old.lerp(new, share))

    @cached_property
    def _held_out(self) -> Batch:
        objective = self.training.objective
        if not isinstance(objective, SoftLabels):
            raise BadInput("held-out sentences tell their KL by soft labels alone; train on soft labels")
        language = self.training.language
        generator = torch.Generator().manual_seed(derived_seed(self.training.seed, "held out"))
        sentences = language.sample(self.settings.held_out, generator)
        return objective.draw_from(language, sentences, generator).to(device_of(self.training.model))

    def readings(self) -> dict[str, float]:
        return {"divergence": self.divergence}

    def state_dict(self) -> dict[str, Any]:
        average = {"weight": self.weight, "average": self.average, "steps": self.steps}
        looks = {"is_polished": self.is_at_rest, "before": self.before}
        return {"descent": self.descent.state_dict(), **average, **looks}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.descent.load_state_dict(state["descent"])
        self.weight, self.average, self.steps = state["weight"], state["average"], state["steps"]
        self.is_at_rest = state["is_polished"]
        self.before = [weight.to(device_of(self.training.model)) for weight in state["before"]]


def mean_divergence(training: Training, batch: Batch) -> float:
    """Mean over sentences of a model's mean KL from the soft targets of each one's predictions, in nats.

    In float64, since in float32 a loss of 1 nat is known to 1e-7, a fiftieth of what models are polished to.
    """
    if batch.soft_targets is None:
        raise BadInput("a batch of drawn words does not tell their divergence; train on soft labels")
    targets = batch.soft_targets.double()
    with torch.no_grad(), evaluation_mode(training.model):
        scores = training.objective.logits(training.model, batch).double()
    log_model = scores.log_softmax(-1)[:, : targets.shape[1]]
    of_predictions = (torch.special.xlogy(targets, targets) - targets * log_model).sum(-1)
    return float(sentence_average(of_predictions, batch))
