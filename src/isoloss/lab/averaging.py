"""The average of models in the laboratory."""

import copy

import torch
from torch import Tensor, nn

from isoloss.errors import BadInput
from isoloss.lab.models import Model, Models, model, models_of
from isoloss.languages.language import Language


def average(models: Models, *, name: str = "average", language: Language | None = None) -> Model:
    """The model whose weights are the plain mean of the models' weights, such as checkpoints of one run.

    Buffers that are saved with weights, such as the running means of a batch norm, are averaged too. Raises
    BadInput for fewer than two, for models of different shapes, or if it cannot read the `language`.
    """
    every = models_of(models)
    if len(every) < 2:
        raise BadInput("an average takes at least two models; give more of a run's, or name more folders")
    first = every[0]
    mean = copy.deepcopy(first.module)
    held = _averaged_tensors(mean)
    shapes = {each: weight.shape for each, weight in held.items()}
    for count, other in enumerate(every[1:], start=2):
        weights = _averaged_tensors(other.module)
        if {each: weight.shape for each, weight in weights.items()} != shapes:
            raise BadInput(
                f"{first.label} and {other.label} have weights of different shapes, which have no average; "
                "give checkpoints of one model"
            )
        with torch.no_grad():
            for each, weight in held.items():
                weight.lerp_(weights[each].to(weight), 1 / count)
    seeds = tuple(dict.fromkeys(seed for each in every for seed in each.seeds))
    return model(Model(name, mean, first.language, None, seeds, first.tokenizer), language=language)


def _averaged_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Its parameters, and the buffers of floating-point numbers that are saved with it, by name."""
    saved = module.state_dict()
    of_numbers = {
        name: each for name, each in module.named_buffers() if name in saved and each.is_floating_point()
    }
    return {**dict(module.named_parameters()), **of_numbers}
