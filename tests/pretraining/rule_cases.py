"""Tiny trainings in float64, for update rules that are checked to many digits."""

import torch
from runs import TaskedLanguage
from torch import nn

from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.objectives.batch import Batch
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.stream import Stream
from isoloss.pretraining.update_rule import Training
from tiny_models import far_from_the_start

LANGUAGE = TaskedLanguage()
OBJECTIVE = MaskedObjective()


def tiny(dropout: float = 0.0) -> nn.Module:
    """In training mode, with weights far from their small start."""
    architecture = PostLayerNormTransformer(Shape(8, 2, 1, 16), dropout, attention="eager")
    model = architecture.build(2, LANGUAGE.maximum_length, seed=1).double()
    return far_from_the_start(model).train()


def training_of(model: nn.Module, steps: int = 2000, batch_size: int = 16) -> Training:
    return Training(model, OBJECTIVE, LANGUAGE, seed=0, steps=steps, batch_size=batch_size)


def batch_of(step: int, batch_size: int = 16) -> Batch:
    return Stream(LANGUAGE, OBJECTIVE, batch_size, seed=0).batch(step - 1)


def weights_of(model: nn.Module) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in model.parameters()]
