"""One seed of fine-tuning: the training loop, validation after each epoch, and the test."""

import copy
import math
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from isoloss.errors import BadInput, IsolossError
from isoloss.measurements.classifiers import Classifier
from isoloss.measurements.labelled_inputs import InputSplits, LabelledInputs
from isoloss.objectives.evaluation import FORWARD_MEMORY_BYTES, evaluation_mode, rows_at_once
from isoloss.pretraining.descent import parameters_by_decay
from isoloss.progress import Progress, silent
from isoloss.results.store import ONLY_WHEN_CHANGED
from isoloss.seeds import derived_seed, seed_dropout

TASK = "fine-tuning"


@dataclass(frozen=True)
class FineTuningSettings:
    """The paper's settings: AdamW at 1e-4, 10 epochs, 200 warm-up steps, 5 seeds (A.5).

    Unspecified settings are those of Devlin et al. 2019, whose protocol the paper follows: after the warm-up
    the learning rate decays linearly to 0 at the last step, minibatches have 32 examples, weight decay of
    0.01 applies to matrices only, and gradients are clipped to norm 1. Dropout is what the model was built
    with.

    With `every_word` the head is linear on the vectors of all words of a language's sentence, as a linear
    probe is, instead of on [CLS]'s vector. Masked words leave [CLS] untrained: what it attends to has to be
    learnt from the labelled sentences, of which a small scale has few.
    """

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    epochs: int = 10
    learning_rate: float = 1e-4
    warm_up_steps: int = 200
    batch_size: int = 32
    weight_decay: float = 0.01
    maximum_norm: float = 1.0
    every_word: bool = field(default=False, metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        if len(set(self.seeds)) != len(self.seeds) or len(self.seeds) < 2:
            raise BadInput(
                f"fine-tuning needs at least two different seeds for its deviation, not {self.seeds}"
            )
        if min(self.epochs, self.batch_size) < 1 or self.warm_up_steps < 0:
            raise BadInput("fine-tuning's epochs and batch_size must be at least 1, its warm_up_steps 0")
        if not (0 < self.learning_rate < math.inf and 0 <= self.weight_decay < math.inf):
            raise BadInput(
                f"the learning rate must be a positive number and weight decay at least 0, not "
                f"{self.learning_rate} and {self.weight_decay}"
            )
        if not self.maximum_norm > 0:
            raise BadInput(f"the maximum norm of a gradient must be above 0, not {self.maximum_norm}")

    def steps(self, examples: int) -> int:
        """How many updates a seed makes. Raises BadInput where that is less than the warm-up."""
        steps = self.epochs * -(-examples // self.batch_size)
        if steps <= self.warm_up_steps:
            raise BadInput(
                f"{self.epochs} epochs of {examples} examples are {steps} steps, no more than the warm-up's "
                f"{self.warm_up_steps}; shorten it, or train on more examples"
            )
        return steps

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of update `step`, from 1: rising over the warm-up, then falling to 0.

        >>> settings = FineTuningSettings(learning_rate=1.0, warm_up_steps=2)
        >>> [settings.rate(step, 6) for step in range(1, 7)]
        [0.5, 1.0, 0.75, 0.5, 0.25, 0.0]
        """
        if step <= self.warm_up_steps:
            return self.learning_rate * step / self.warm_up_steps
        return self.learning_rate * (steps - step) / (steps - self.warm_up_steps)


@dataclass(frozen=True)
class FineTuned:
    """The result of one seed.

    `validation[e]` is the accuracy on validation examples after epoch e + 1, `best_epoch` (from 1) the first
    of the best; `best` and `last` say of each test sentence whether the model of that epoch, and of the last
    one, is right.
    """

    validation: list[float]
    best_epoch: int
    best: Bool[Tensor, " n"]
    last: Bool[Tensor, " n"]


def fine_tune_seed(
    model: Classifier,
    splits: InputSplits,
    settings: FineTuningSettings,
    seed: int,
    progress: Progress = silent,
) -> FineTuned:
    """Train `model`, a sentence classifier, on the training split; the test split is used once, at the end.

    The order of examples and dropout follow from `seed`, so that a seed alone gives what it gives among
    others; the global generators are used, keep them if you need them. Memory: the model five times, for
    gradients, the optimiser's two averages and the best epoch's weights. `model` ends with the best ones.

    Raises IsolossError when the loss is no longer a number.
    """
    n, device = len(splits.train), model.device
    steps = settings.steps(n)
    optimiser = torch.optim.AdamW(parameters_by_decay(model, settings.weight_decay), fused=True)
    generator = torch.Generator().manual_seed(derived_seed(seed, "fine-tuning order"))
    validation: list[float] = []
    weights: dict[str, Tensor] = {}
    step = 0
    for epoch in range(1, settings.epochs + 1):
        model.train()
        losses = []
        for rows in torch.split(torch.randperm(n, generator=generator), settings.batch_size):
            step += 1
            seed_dropout(seed, step, device)
            for group in optimiser.param_groups:
                group["lr"] = settings.rate(step, steps)
            losses.append(_update(model, optimiser, splits.train[rows], settings.maximum_norm))
        if not math.isfinite(float(torch.stack(losses).sum())):
            raise IsolossError(
                f"the loss is no longer a number in epoch {epoch} of fine-tuning with seed {seed}; lower the "
                "learning rate or lengthen the warm-up"
            )
        validation.append(float(_right(model, splits.validation, settings.batch_size).double().mean()))
        if validation[-1] > max(validation[:-1], default=-1.0):
            weights = copy.deepcopy(model.state_dict())
        progress(TASK, epoch, settings.epochs, f"seed {seed}, validation accuracy {validation[-1]:.4f}")
    last = _right(model, splits.test, settings.batch_size)
    model.load_state_dict(weights)
    best_epoch = validation.index(max(validation)) + 1
    best = _right(model, splits.test, settings.batch_size)
    return FineTuned(validation, best_epoch, best, last)


def _update(
    model: Classifier, optimiser: torch.optim.Optimizer, examples: LabelledInputs, maximum_norm: float
) -> Float[Tensor, ""]:
    loss = cross_entropy(_scores(model, examples), examples.labels.to(model.device))
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), maximum_norm)
    optimiser.step()
    return loss.detach()


def _scores(model: Classifier, examples: LabelledInputs) -> Float[Tensor, "n k"]:
    scores: Any = model(**examples.arguments(model.device)).logits
    return torch.as_tensor(scores)


def _right(model: Classifier, examples: LabelledInputs, minibatch: int) -> Bool[Tensor, " n"]:
    """Whether the model's most likely class is the label; dropout off, within the usual memory."""
    # What fits with gradients fits without; large vocabularies, which are not scored, matter here.
    at_once = max(minibatch, rows_at_once(model, examples.tokens, FORWARD_MEMORY_BYTES))
    said = []
    with evaluation_mode(model), torch.inference_mode():
        for start in range(0, len(examples), at_once):
            said.append(_scores(model, examples[start : start + at_once]).argmax(dim=1).cpu())
    right: Tensor = torch.cat(said) == examples.labels
    return right
