"""What enlarging a model changes: outputs, scores, and traces by kind of parameter (Appendix B.4).

Feed-forward networks are the base case, in which enlarging also preserves the trace (B.4.1).
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import grad, jacrev
from transformers import PreTrainedModel

from isoloss.models.transformers import Architecture, Shape

Weights = Sequence[Tensor]
"""W_0 .. W_L of a network f(x) = W_L σ(W_{L-1} .. σ(W_0 x)) without biases, σ(z) = max(z, slope z)."""


def feed_forward_weights(widths: Sequence[int], seed: int, slope: float = 0.0) -> Weights:
    """Those of He et al. 2015, N(0, 2 / ((1 + slope²) inputs)), and the last N(0, 1 / inputs), in float64.

    `widths` are those of the input, each hidden layer and the output.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = [
        torch.randn(outputs, inputs, generator=generator) * (2 / (1 + slope**2) / inputs) ** 0.5
        for inputs, outputs in pairwise(widths)
    ]
    weights[-1] *= ((1 + slope**2) / 2) ** 0.5
    return [weight.double() for weight in weights]


def feed_forward(weights: Weights, x: Float[Tensor, "n d"], slope: float = 0.0) -> Float[Tensor, "n k"]:
    """The network's outputs; ReLU is slope 0."""
    for weight in weights[:-1]:
        x = nn.functional.leaky_relu(x @ weight.T, slope)
    return x @ weights[-1].T


def widened(weights: Weights, factor: int) -> Weights:
    """Every hidden layer `factor` = k times as wide: the same function, the same trace of the Hessian.

    The first and last matrices are tiled and divided by √k, those between by k (B.4.1), so that each hidden
    vector is 1/√k times k copies of itself. σ is positively homogeneous, so this is exact; each matrix's
    trace of the Hessian, and of the Fisher information, is unchanged, since k² entries (k in the first and
    last) each have a gradient 1/k (1/√k) times as large.

    >>> small, x = feed_forward_weights((2, 3, 1), seed=0), torch.ones(1, 2, dtype=torch.float64)
    >>> bool(torch.allclose(feed_forward(widened(small, 4), x), feed_forward(small, x)))
    True
    """
    last = len(weights) - 1
    copies = [(1 if n == last else factor, 1 if n == 0 else factor) for n in range(len(weights))]
    return [w.repeat(*each) / (each[0] * each[1]) ** 0.5 for w, each in zip(weights, copies, strict=True)]


def dense_trace(weights: Weights, x: Float[Tensor, "n d"], slope: float) -> float:
    """Tr ∇²L of L = E ‖f(x)‖², whose residuals do not vanish, from the dense Hessian."""
    sizes = [weight.numel() for weight in weights]

    def loss(flat: Float[Tensor, " p"]) -> Float[Tensor, ""]:
        parts = zip(weights, torch.split(flat, sizes), strict=True)
        outputs = feed_forward([part.view_as(weight) for weight, part in parts], x, slope)
        return outputs.square().sum(1).mean()

    return float(jacrev(grad(loss))(torch.cat([weight.flatten() for weight in weights])).trace())


MATRICES, VECTORS, EMBEDDINGS = "matrices", "biases and gains", "embeddings"
LAST_NORM, OUTPUT_BIAS = "last norm before the output", "output's bias"
_LAST_NORM = ("cls.predictions.transform.LayerNorm.", "lm_head.layer_norm.")
_OUTPUT_BIAS = ("cls.predictions.bias", "lm_head.bias")
WORDS, LONGEST = 12, 8


def random_transformer(architecture: Callable[[Shape], Architecture], seed: int) -> PreTrainedModel:
    """A small transformer in float64, so far from initialisation that every part has a sizeable gradient."""
    model = architecture(Shape(8, 2, 2, 12)).build(WORDS, LONGEST, seed=seed).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def with_epsilon(model: PreTrainedModel, epsilon: float) -> PreTrainedModel:
    """The model itself, with its layer norms set to this epsilon."""
    model.config.layer_norm_eps = epsilon
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = epsilon
    return model


def largest_change(before: Float[Tensor, "*n"], after: Float[Tensor, "*n"]) -> float:
    """The largest change of an output, over the largest output."""
    return float((after - before).abs().max() / before.abs().max())


def random_tokens(n: int, seed: int) -> Int[Tensor, "n S"]:
    """Sentences of `LONGEST` words after a first token, as `random_transformer` reads them."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, WORDS + 3, (n, LONGEST + 1), generator=generator)
    ids[:, 0] = 1
    return ids


@torch.no_grad()
def score_change(model: PreTrainedModel, enlarged: PreTrainedModel, ids: Int[Tensor, "n S"]) -> float:
    """`largest_change` of the scores (logits) due to enlarging."""
    return largest_change(model(input_ids=ids).logits, enlarged(input_ids=ids).logits)


def fisher_by_kind(model: PreTrainedModel, ids: Int[Tensor, "n S"], position: int) -> dict[str, float]:
    """The exact trace of the Fisher information of the word at `position`, by kind of parameter, in nats.

    E_y ‖∇ log f_y‖² with each word y in turn: n c backward passes.
    """
    names, parameters = zip(*model.named_parameters(), strict=True)
    logs = model(input_ids=ids).logits[:, position].log_softmax(1)
    traces: dict[str, float] = {}
    for row in logs:
        for log in row:
            gradients = torch.autograd.grad(log, parameters, retain_graph=True)
            weight = float(log.detach().exp()) / len(logs)
            for name, gradient in zip(names, gradients, strict=True):
                kind = kind_of(name, gradient.ndim)
                traces[kind] = traces.get(kind, 0.0) + weight * float(gradient.square().sum())
    return traces


def kind_of(name: str, dimensions: int) -> str:
    """The row of docs/enlarging.md's table of traces to which a parameter belongs.

    >>> kind_of("bert.encoder.layer.0.output.dense.weight", 2), kind_of("lm_head.bias", 1)
    ('matrices', "output's bias")
    """
    if name.startswith(_LAST_NORM):
        return LAST_NORM
    if name in _OUTPUT_BIAS:
        return OUTPUT_BIAS
    if dimensions == 1:
        return VECTORS
    return EMBEDDINGS if re.search(r"embeddings\.\w+_embeddings\.", name) else MATRICES


def documented_factor(kind: str, form: str, width: int) -> float:
    """The factor for a kind's trace according to docs/enlarging.md, with tied embeddings.

    >>> documented_factor(EMBEDDINGS, "exact", 4), documented_factor(EMBEDDINGS, "paper's", 4)
    (0.25, 4.0)
    """
    exact = {MATRICES: 0, VECTORS: -1, EMBEDDINGS: -1, LAST_NORM: 1, OUTPUT_BIAS: 0}
    papers = exact | {EMBEDDINGS: 1, LAST_NORM: -1}
    return float(width) ** (exact if form == "exact" else papers)[kind]
