"""Whole Hessians of tiny models, row by row, in float64."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from isoloss.curvature.derivatives import parameter_group, trainable_parameters
from isoloss.curvature.loss import BatchLoss
from isoloss.objectives.batch import sentences_between
from isoloss.objectives.masked import MaskedObjective


def flat(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors])


def dense_hessian(scalar, parameters):
    """The [P, P] Hessian of `scalar()` in `parameters`, by name."""
    leaves = list(parameters.values())
    with sdpa_kernel(SDPBackend.MATH):
        gradient = flat(torch.autograd.grad(scalar(), leaves, create_graph=True, materialize_grads=True))
        rows = torch.autograd.grad(
            gradient, leaves, torch.eye(len(gradient)).to(gradient), is_grads_batched=True, allow_unused=True
        )
    return torch.cat(
        [
            torch.zeros(len(gradient), leaf.numel()).to(gradient) if row is None else row.flatten(1)
            for leaf, row in zip(leaves, rows, strict=True)
        ],
        dim=1,
    )


def hessian_and_each_sentences(model, batch):
    """The dense Hessian of the masked loss, and [n, P, P] those of each sentence."""
    parameters, objective = trainable_parameters(model), MaskedObjective()
    whole = dense_hessian(BatchLoss(model, objective, batch).mean, parameters)
    parts = [(sentences_between(batch, i, i + 1), i) for i in range(len(batch))]
    of_each = [dense_hessian(BatchLoss(model, objective, *part).mean, parameters) for part in parts]
    return whole, torch.stack(of_each)


def group_indices(parameters):
    """The indices of each group in the flat vector of parameters."""
    indices, start = {}, 0
    for name, parameter in parameters.items():
        places = torch.arange(start, start + parameter.numel())
        indices.setdefault(parameter_group(name), []).append(places)
        start += parameter.numel()
    return {group: torch.cat(places) for group, places in indices.items()}
