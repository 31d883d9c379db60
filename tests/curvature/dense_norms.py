"""The oracle of per-sentence norms: one ordinary backward pass per sentence."""

from collections import defaultdict

import torch
from dense_derivatives import scores

from isoloss.curvature.derivatives import parameter_group
from isoloss.curvature.per_sentence.norms import Directions, norms_along
from isoloss.curvature.per_sentence.traces import fisher_directions, sign_bits, signs_of
from isoloss.objectives.batch import sentences_of
from tiny_models import far_from_the_start


def built(kind, config):
    """A model of float64 in evaluation mode, all of whose weights are random, biases and gains too."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = kind(config).double()
    return far_from_the_start(model).eval()


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


def directions(batch, tokens=5):
    generator = torch.Generator().manual_seed(4)
    return torch.randn(len(batch.rows), tokens, generator=generator, dtype=torch.float64)


def checked_norms(model, objective, batch, tokens=5, **settings):
    """The norms of random cotangents, after comparing them with dense gradients in evaluation mode."""
    cotangents = directions(batch, tokens)
    found = norms_of_cotangents(model, objective, batch, lambda _: cotangents, **settings)
    model.eval()
    expected = dense_squared_norms(model, objective.logits(model, batch), batch.rows, cotangents)
    assert found.groups.keys() == expected.keys()
    for group in expected:
        torch.testing.assert_close(found.groups[group], expected[group], rtol=1e-9, atol=1e-13)
    assert found.ways.keys() == {name for name, p in model.named_parameters() if p.requires_grad}
    return found


def dense_traces(model, objective, batch):
    """Each sentence's mean over its predictions of Σ_y p_y ||∇ log p_y||², one backward pass per label."""
    traces = torch.zeros(len(batch), dtype=torch.float64)
    for row, (log_p, gradients) in zip(
        batch.rows.tolist(), scores(model.eval(), objective, batch), strict=True
    ):
        traces[row] += log_p.exp().detach() @ gradients.square().sum(1)
    return traces / torch.bincount(batch.rows)


def dense_values(model, objective, batch, seed):
    """Each sentence's quadratic form in the signs that belong to `seed`, from dense gradients."""
    model.eval()
    values = []
    for sentence in range(len(batch)):
        piece = sentences_of(batch, torch.tensor([sentence]))
        logits, events = objective.logits(model, piece), len(piece.targets)
        bits = sign_bits(torch.tensor([sentence]), torch.tensor([events]), logits.shape[1], seed)
        drawn = fisher_directions(logits.detach(), signs_of(bits, logits.shape[1], torch.float64))
        gradients = torch.autograd.grad(
            (logits * drawn.cotangents).sum(), model.parameters(), materialize_grads=True
        )
        noise = noise_of_the_output_layer(model, objective, piece, drawn)
        values.append((sum(g.square().sum() for g in gradients) - noise[0]) / events)
    return torch.stack(values)


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
