"""How much memory a batch takes, so that no more sentences are measured at once than fit."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from isoloss.curvature.every_parameter_recorded import every_parameter_recorded
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation_mode import evaluation_mode


def bytes_kept_for_backward(model: nn.Module, objective: Objective, batch: Batch) -> int:
    """What a forward pass keeps for the backward pass, beside the parameters; found by one.

    The scores, which pass through several forms, count four times.
    """
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def give_back(tensor: Any) -> Any:
        return tensor

    with evaluation_mode(model), every_parameter_recorded(model), saved_tensors_hooks(count, give_back):
        logits = objective.logits(model, batch)
    return sum(kept.values()) + 4 * logits.nbytes


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether that is what torch's error says; on a CPU its type does not."""
    of_a_processor = ("can't allocate memory", "not enough memory")
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in of_a_processor)
