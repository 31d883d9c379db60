"""How much memory a batch takes, and whether a model can be run and differentiated, before it is measured."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from isoloss.curvature.autograd_graph import every_parameter_recorded
from isoloss.errors import BadInput, IsolossError
from isoloss.objectives.batch import Batch, Objective, sentences_of
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


def refuse_without_gradient(model: nn.Module, objective: Objective, batch: Batch) -> None:
    """Raise BadInput where the batch's shortest sentence cannot be passed forward and backward alone.

    Whatever the model's own code raises is said in a sentence, and gradients that are not finite are refused.

    >>> from isoloss.objectives.pretrained import PretrainedMasked
    >>> ids = torch.tensor([[1, 2]])
    >>> batch = PretrainedMasked().batch({"input_ids": ids, "labels": ids})
    >>> refuse_without_gradient(nn.Linear(2, 2), PretrainedMasked(), batch)
    Traceback (most recent call last):
    isoloss.errors.BadInput: Linear cannot be run forward and backward on a sentence of 2 tokens: ...
    """
    sentence = sentences_of(batch, batch.attention_mask.sum(dim=1).argmin()[None])
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        with evaluation_mode(model), torch.enable_grad():
            logits = objective.logits(model, sentence)
            gradients = torch.autograd.grad(logits.mean(), parameters, allow_unused=True)
    except IsolossError:
        raise
    except Exception as error:
        if isinstance(error, RuntimeError) and is_out_of_memory(error):
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise BadInput(
            f"{type(model).__name__} cannot be run forward and backward on a sentence of "
            f"{sentence.input_ids.shape[1]} tokens: {reason}; this is the model's own code, so try another "
            "precision, longer sentences, or another version of transformers"
        ) from error
    if logits.isfinite().all() and not all(each.isfinite().all() for each in gradients if each is not None):
        raise BadInput(
            f"the gradients of {type(model).__name__} are not finite although its scores are; this is the "
            "model's own code, so try longer sentences, or another version of transformers"
        )
