"""The adversarial algorithm: pre-train to the same loss while degrading downstream tasks (paper A.5)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.languages.pcfg import named_task
from isoloss.languages.task import Task, TaskSplits, task_splits
from isoloss.objectives.batch import Batch
from isoloss.objectives.evaluation import evaluation_mode
from isoloss.objectives.tokens import word_vectors
from isoloss.pretraining.descent import AdamW, Descent, DescentSettings, check_optimiser
from isoloss.pretraining.update_rule import Training
from isoloss.seeds import derived_seed

SMALLEST_PENALTY = 1e-12
"""Keeps the fit defined where all features are equal."""


@dataclass(frozen=True)
class Adversarial:
    """Descends L(ψ) - λ · V(ψ), where V is the validation loss on D2 of the head fitted on D1 (A.5).

    The head is linear on the features of the linear probe, without dropout. Both its fit and V use the
    squared loss on one-hot labels, also for multi-class heads, since the paper's closed form, after Liu et
    al. 2020, exists for that and not for the cross-entropy. V is differentiated through the fit
    (`ridge_head_loss`). Every step draws new D1 and D2, disjoint and of `examples` sentences each, from the
    named tasks in turn (see `named_task`); if none are named, from all that the language lists, which leave
    out rare ones.

    The paper does not give λ. Here it is controlled by the pre-training loss: with ℓ the loss averaged over
    about 1 / (1 - `smoothing`) steps, λ = `strength` at or below the lower end of `loss_window`, 0 at or
    above the upper end, and linear in between. It is 0 until the model has learnt that much, never exceeds
    `strength`, and decreases as soon as the adversary raises the loss. Losses are training losses, in nats,
    with dropout if the model has it. Readings: `lambda`, `smoothed_loss` ℓ, and `head_validation_loss` V,
    each of the last step (V of the last with λ > 0). `optimiser` makes the update; its state and three
    numbers are the rule's.
    """

    loss_window: tuple[float, float]
    strength: float = 1.0
    tasks: tuple[str, ...] = ()
    examples: int = 64
    ridge: float = 0.01
    smoothing: float = 0.99
    optimiser: DescentSettings = field(default_factory=AdamW)

    def __post_init__(self) -> None:
        check_optimiser(self.optimiser)
        self.controller()  # rejects a window, strength or smoothing without effect
        if self.examples < 2:
            raise BadInput(f"a head needs at least 2 examples to be fitted on, not {self.examples}")
        if not 0 < self.ridge < math.inf:
            raise BadInput(f"ridge must be a positive number, not {self.ridge}: without it V has no bound")

    def controller(self) -> "LossController":
        """What steers λ, fresh."""
        return LossController(self.loss_window, self.strength, self.smoothing)

    def build(self, training: Training) -> "AdversarialRule":
        """See `UpdateRuleSettings.build`.

        Raises BadInput when the source of sentences has no tasks or none of a name, and when its sentences
        do not fill two disjoint sets.
        """
        training.refuse_micro_batches("the adversary")
        language: Any = training.language
        if not isinstance(language, Language) or not (known := language.tasks()):
            raise BadInput("the adversary needs a language with downstream tasks, and this one has none")
        tasks = [named_task(language, name) for name in self.tasks] or list(known)
        rule = AdversarialRule(self, tasks, training, self.optimiser.descent(training))
        for number in range(len(tasks)):
            rule.examples(number)  # refused now rather than later in the run
        return rule


class LossController:
    """The strength λ of a competing term, controlled by the loss, and its state.

    With ℓ the loss averaged over about 1 / (1 - `smoothing`) steps, λ = `strength` at or below the lower end
    of the `window`, 0 at or above the upper end, and linear in between.

    >>> controller = LossController((1.0, 2.0), strength=4.0, smoothing=0.0)
    >>> [controller.strength_at(loss) for loss in (0.5, 1.75, 3.0)]
    [4.0, 1.0, 0.0]
    """

    def __init__(self, window: tuple[float, float], strength: float, smoothing: float) -> None:
        lower, upper = window
        if not 0 <= lower < upper < math.inf:
            raise BadInput(f"the loss window must be two rising numbers of nats, not {window}")
        if not 0 < strength < math.inf:
            raise BadInput(f"the strength, which bounds λ, must be a positive number, not {strength}")
        if not 0 <= smoothing < 1:
            raise BadInput(f"smoothing must be at least 0 and below 1, not {smoothing}")
        self._window, self._strength, self._smoothing = window, strength, smoothing
        self.steps = 0
        self.loss_average = 0.0
        self.last: dict[str, float] = {}

    def strength_at(self, loss: float) -> float:
        """λ once `loss` is taken into the average."""
        memory, (lower, upper) = self._smoothing, self._window
        self.steps += 1
        self.loss_average = memory * self.loss_average + (1 - memory) * loss
        smoothed = self.loss_average / (1 - memory**self.steps)
        strength = self._strength * min(1.0, max(0.0, (upper - smoothed) / (upper - lower)))
        self.last |= {"lambda": strength, "smoothed_loss": smoothed}
        return strength

    def state_dict(self) -> dict[str, Any]:
        """The average so far and the last readings."""
        return {"steps": self.steps, "loss_average": self.loss_average, "last": dict(self.last)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        self.steps, self.loss_average = state["steps"], state["loss_average"]
        self.last = dict(state["last"])


class AdversarialRule:
    """The adversary's `UpdateRule`."""

    def __init__(
        self, settings: Adversarial, tasks: Sequence[Task], training: Training, descent: Descent
    ) -> None:
        self.settings = settings
        self.tasks = tasks
        self.training = training
        self.descent = descent
        self.controller = settings.controller()

    def step(self, batch: Batch, step: int) -> Float[Tensor, ""]:
        """See `UpdateRule.step`; the loss is the pre-training loss alone."""
        loss = self.training.loss(batch)
        whole = self.training.averaged(loss)
        strength = self.controller.strength_at(whole.item())
        objective = loss
        if strength > 0:
            head_loss = self.head_validation_loss(step)
            objective = loss - strength * head_loss.to(loss.dtype)
            self.controller.last["head_validation_loss"] = head_loss.item()
        self.descent.clear()
        self.training.backward(objective)
        self.descent.update(step)
        return whole

    def head_validation_loss(self, step: int) -> Float[Tensor, ""]:
        """V(ψ) on step `step`'s D1 and D2, float64."""
        splits = self.examples(step)
        model, classes = self.training.model, len(self.tasks[step % len(self.tasks)].classes)
        with evaluation_mode(model):
            train = word_vectors(model, splits.train.sentences.ids)
            validation = word_vectors(model, splits.validation.sentences.ids)
        train_labels, validation_labels = splits.train.labels, splits.validation.labels
        return ridge_head_loss(
            train, train_labels, validation, validation_labels, classes, self.settings.ridge
        )

    def examples(self, step: int) -> TaskSplits:
        """D1 (train) and D2 (validation) of step `step`, without a common sentence; no test examples."""
        seed = derived_seed(self.training.seed, "adversarial examples", step)
        number = self.settings.examples
        return task_splits(self.tasks[step % len(self.tasks)], number, number, 0, seed)

    def readings(self) -> dict[str, float]:
        return dict(self.controller.last)

    def state_dict(self) -> dict[str, Any]:
        return {"descent": self.descent.state_dict(), "controller": self.controller.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.descent.load_state_dict(state["descent"])
        self.controller.load_state_dict(state["controller"])


def ridge_head_loss(
    train: Float[Tensor, "n D"],
    train_labels: Int[Tensor, " n"],
    validation: Float[Tensor, "m D"],
    validation_labels: Int[Tensor, " m"],
    classes: int,
    ridge: float,
) -> Float[Tensor, ""]:
    """Mean squared validation loss (1/m) Σ ||W h + b - onehot(y)||² of the head fitted on the training part.

    W, b minimise Σ ||W h + b - onehot(y)||² + α ||W||², α = `ridge` · ||H||²_F / n with H the centred
    features: the bias is not penalised, and scaling all features changes nothing. Solved in the dual
    (sentence) space, W = Yᵀ (H Hᵀ + α I)⁻¹ H, by Cholesky in float64; gradients flow through it to both sets
    of features. A head predicts at most ||h|| / rms(H) · √(n / 4 ridge) away from the mean. Memory: n² + m n
    numbers.

    >>> x = torch.eye(2).repeat(50, 1)
    >>> y = torch.tensor([0, 1]).repeat(50)
    >>> round(float(ridge_head_loss(x, y, x, y, classes=2, ridge=1e-6)), 6)
    0.0
    """
    truth = one_hot(train_labels, classes).to(train.device, torch.float64)
    wanted = one_hot(validation_labels, classes).to(train.device, torch.float64)
    centre, mean = train.double().mean(dim=0), truth.mean(dim=0)
    centred = train.double() - centre
    gram = centred @ centred.T
    penalty = ridge * gram.trace() / len(train) + SMALLEST_PENALTY
    factor = torch.linalg.cholesky(gram + penalty * torch.eye(len(train)).to(gram))
    coefficients = torch.cholesky_solve(truth - mean, factor)
    predicted = (validation.double() - centre) @ centred.T @ coefficients + mean
    return (predicted - wanted).square().sum(dim=1).mean()
