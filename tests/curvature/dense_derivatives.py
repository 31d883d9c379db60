"""Whole Hessians of tiny models, row by row, in float64."""

import functools

import ragged_batches
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from isoloss.curvature.derivatives import parameter_group, trainable_parameters
from isoloss.curvature.loss import BatchLoss
from isoloss.objectives.batch import sentences_between
from isoloss.objectives.masked import MaskedObjective
from tiny_models import partly_frozen, tiny_model


def flat(tensors):
    return torch.cat([tensor.flatten() for tensor in tensors])


def gradient_of(scalar, model):
    """The flat gradient of the number `scalar` in the model's trainable parameters."""
    leaves = list(trainable_parameters(model).values())
    return flat(torch.autograd.grad(scalar, leaves, materialize_grads=True))


def scores(model, objective, batch, **kept):
    """For each prediction, the logarithm of each word's probability, and [v, P] its gradient."""
    leaves = list(trainable_parameters(model).values())
    for log_p in objective.logits(model, batch).log_softmax(dim=1):
        gradients = [
            flat(torch.autograd.grad(each, leaves, retain_graph=True, materialize_grads=True, **kept))
            for each in log_p
        ]
        yield log_p, torch.stack(gradients)


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


def partly_trained(architecture):
    """Tables, norms, matrices and biases of which the dense Hessian is soon found."""
    model = tiny_model(architecture, ragged_batches.WORDS, ragged_batches.LENGTH)
    return partly_frozen(model, "layer.1.output", "embeddings")


@functools.cache
def decomposed(architecture):
    """The Hessian's eigenvalues and eigenvectors on several masks, and [n, P, P] that of each sentence."""
    model, batch = partly_trained(architecture).eval(), ragged_batches.several_masks()
    parameters, objective = trainable_parameters(model), MaskedObjective()
    parts = [(sentences_between(batch, i, i + 1), i) for i in range(len(batch))]
    of_each = torch.stack(
        [dense_hessian(BatchLoss(model, objective, *part).mean, parameters) for part in parts]
    )
    return *torch.linalg.eigh(of_each.mean(0)), of_each


def group_indices(parameters):
    """The indices of each group in the flat vector of parameters."""
    indices, start = {}, 0
    for name, parameter in parameters.items():
        places = torch.arange(start, start + parameter.numel())
        indices.setdefault(parameter_group(name), []).append(places)
        start += parameter.numel()
    return {group: torch.cat(places) for group, places in indices.items()}
