"""The oracle of per-sentence norms: one ordinary backward pass per sentence."""

from collections import defaultdict

import torch

from isoloss.curvature.derivatives import parameter_group
from isoloss.curvature.per_sentence.directions import Directions
from isoloss.curvature.per_sentence.norms import norms_along


def norms_of_cotangents(model, objective, batch, cotangents, **settings):
    """`norms_along` cotangents that are not random, given as a function of the logits."""
    return norms_along(model, objective, batch, lambda logits: Directions(cotangents(logits)), **settings)


def dense_squared_norms(model, logits, rows, cotangents):
    """||∇ Σ_j cotangents[j] · logits[j]||² of every sentence, by group of what requires a gradient."""
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    n = int(rows.max()) + 1
    norms = defaultdict(lambda: torch.zeros(n, dtype=torch.float64))
    for sentence in range(n):
        own = (logits * cotangents)[rows == sentence].sum()
        gradients = torch.autograd.grad(own, named.values(), retain_graph=True, materialize_grads=True)
        for name, gradient in zip(named, gradients, strict=True):
            norms[parameter_group(name)][sentence] += gradient.double().square().sum()
    return norms


def noise_of_the_output_layer(model, objective, batch, directions):
    """For each sentence, its squared gradient minus the mean of that, which a drawn value omits."""
    read = []
    layer = model.get_output_embeddings()
    hook = layer.register_forward_hook(lambda _, inputs, __: read.append(inputs[0].detach()))
    objective.logits(model, batch)
    hook.remove()
    states = read[0].flatten(0, -2)
    if layer.bias is not None:
        states = torch.cat([states, torch.ones_like(states[:, :1])], dim=1)
    noise = torch.zeros(len(batch), dtype=torch.float64)
    for sentence in range(len(batch)):
        own = batch.rows == sentence
        gradient = directions.cotangents[own].T @ states[own]
        mean = directions.mean_squares[own] @ states[own].square().sum(1)
        noise[sentence] = gradient.square().sum() - mean
    return noise
