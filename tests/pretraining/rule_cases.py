"""Tiny trainings in float64, for update rules that are checked to many digits."""

import torch
from runs import TaskedLanguage
from torch import nn

from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.objectives.batch import Batch, PretrainingObjective
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.adversarial import Adversarial
from isoloss.pretraining.descent import SGD, AdamW
from isoloss.pretraining.flatness_regularised import SAM, FlatnessRegularised, Sharpened
from isoloss.pretraining.other_optimisers import Muon
from isoloss.pretraining.processes import ALONE, Processes
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training, UpdateRuleSettings
from tiny_models import far_from_the_start

LANGUAGE = TaskedLanguage()
OBJECTIVE = MaskedObjective()
QUICK = AdamW(learning_rate=1e-2, warm_up_steps=0)
RULES: dict[str, UpdateRuleSettings] = {
    "AdamW": QUICK,
    "SGD": SGD(learning_rate=0.1, warm_up_share=0.0, momentum=0.9),
    "SAM": SAM(optimiser=QUICK),
    "flatness-regularised": FlatnessRegularised(optimiser=QUICK),
    "sharpened": Sharpened((0.0, 9.0), optimiser=QUICK),
    "adversarial": Adversarial((2.0, 4.0), strength=0.1, examples=8, smoothing=0.5, optimiser=QUICK),
    "Muon": Muon(learning_rate=1e-2, rest=QUICK),
}


def tiny(dropout: float = 0.0) -> nn.Module:
    """In training mode, with weights far from their small start."""
    architecture = PostLayerNormTransformer(Shape(8, 2, 1, 16), dropout, attention="eager")
    model = architecture.build(2, LANGUAGE.maximum_length, seed=1).double()
    return far_from_the_start(model).train()


def training_of(model: nn.Module, steps: int = 2000, batch_size: int = 16) -> Training:
    return Training(model, OBJECTIVE, LANGUAGE, seed=0, steps=steps, batch_size=batch_size)


def batch_of(step: int, batch_size: int = 16) -> Batch:
    return Stream(LANGUAGE, OBJECTIVE, batch_size, seed=0).batch(step - 1)


def gradients_of(model: nn.Module, step: int) -> list[torch.Tensor]:
    """Those of the loss of the step's batch."""
    return list(torch.autograd.grad(training_of(model).loss(batch_of(step)), list(model.parameters())))


def trained(
    settings: UpdateRuleSettings,
    objective: PretrainingObjective,
    processes: Processes = ALONE,
    micro_batch: int | None = None,
) -> tuple[list[torch.Tensor], list[float], dict[str, float]]:
    """Weights, losses and readings after two steps in float64.

    Of an odd number of sentences, so that shares differ in size.
    """
    model, steps, sentences = tiny(), 2, 17
    training = Training(model, objective, LANGUAGE, 0, steps, sentences, processes, micro_batch)
    rule, stream = settings.build(training), Stream(LANGUAGE, objective, sentences, seed=0)
    losses = [float(rule.step(stream.batch(step - 1), step)) for step in range(1, steps + 1)]
    assert processes.hold_the_same(weights_of(model))
    return weights_of(model), losses, rule.readings()


def weights_of(model: nn.Module) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in model.parameters()]
