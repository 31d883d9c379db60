"""The oracle of per-sentence norms: one ordinary backward pass a sentence."""

from collections import defaultdict

import torch

from isoloss.curvature.parameter_groups import parameter_group


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
