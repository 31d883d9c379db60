"""What enlarging a model changes: outputs, scores, and traces by kind of parameter (Appendix B.4).

Feed-forward networks are the base case, in which enlarging also preserves the trace (B.4.1).
"""

import re
from collections.abc import Callable
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.models.transformers import Architecture, Shape


class FeedForward(nn.Module):
    """f(x) = W_L σ(W_{L-1} .. σ(W_0 x)), no biases, σ(z) = max(z, slope z) with 0 <= slope < 1.

    `widths` are those of the input, each hidden layer and the output; ReLU is slope 0. Weights start as in He
    et al. 2015, N(0, 2 / ((1 + slope²) inputs)), and the last N(0, 1 / inputs), from `seed` alone. Raises
    BadInput for fewer than one hidden layer, a width below 1 or another slope.

    >>> FeedForward((3, 8, 8, 2), seed=0)(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(self, widths: tuple[int, ...], seed: int, slope: float = 0.0) -> None:
        super().__init__()
        if len(widths) < 3 or min(widths) < 1:
            raise BadInput(f"a network needs an input, hidden layers and an output, not the widths {widths}")
        if not 0 <= slope < 1:
            raise BadInput(f"the slope below zero must be at least 0 and below 1, not {slope}")
        self.widths, self.slope = widths, slope
        generator = torch.Generator().manual_seed(seed)
        self.weights = nn.ParameterList(
            torch.randn(outputs, inputs, generator=generator) * (2 / (1 + slope**2) / inputs) ** 0.5
            for inputs, outputs in pairwise(widths)
        )
        with torch.no_grad():
            self.weights[-1] *= ((1 + slope**2) / 2) ** 0.5

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k"]:
        """The network's outputs."""
        *hidden, last = self.weights
        for weight in hidden:
            x = nn.functional.leaky_relu(x @ weight.T, self.slope)
        outputs: Tensor = x @ last.T
        return outputs


@torch.no_grad()
def widened(network: FeedForward, factor: int) -> FeedForward:
    """Every hidden layer `factor` = k times as wide: the same function, the same trace of the Hessian.

    The first and last matrices are tiled and divided by √k, those between by k (B.4.1), so that each hidden
    vector is 1/√k times k copies of itself. σ is positively homogeneous, so this is exact; each matrix's
    trace of the Hessian, and of the Fisher information, is unchanged, since k² entries (k in the first and
    last) each have a gradient 1/k (1/√k) times as large. Raises BadInput for a factor that is not an integer
    of at least 1.

    >>> small = FeedForward((2, 3, 1), seed=0)
    >>> x = torch.ones(1, 2)
    >>> bool(torch.allclose(widened(small, 4)(x), small(x)))
    True
    """
    if type(factor) is not int or factor < 1:
        raise BadInput(f"the width can be multiplied by an integer of at least 1, not {factor}")
    inputs, *hidden, outputs = network.widths
    large = FeedForward((inputs, *(factor * width for width in hidden), outputs), 0, network.slope)
    for weight, wide in zip(network.weights, large.weights, strict=True):
        copies = [wide.shape[0] // weight.shape[0], wide.shape[1] // weight.shape[1]]
        # Copied on both sides: divide by k; on one: by √k; on none (k = 1): by 1.
        wide.data = weight.repeat(copies) / (copies[0] * copies[1]) ** 0.5
    return large.train(network.training)


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


def dense_trace(network: FeedForward, x: Float[Tensor, "n d"]) -> float:
    """Tr ∇²L of L = E ‖f(x)‖², whose residuals do not vanish, from the dense Hessian."""
    parameters = dict(network.named_parameters())
    sizes = [parameter.numel() for parameter in parameters.values()]

    def loss(flat: Tensor) -> Tensor:
        parts = zip(parameters.items(), torch.split(flat, sizes), strict=True)
        values = {name: part.view(old.shape) for (name, old), part in parts}
        outputs: Tensor = functional_call(network, values, (x,))
        return outputs.square().sum(1).mean()

    flat = torch.cat([parameter.detach().flatten() for parameter in parameters.values()])
    hessian: Tensor = torch.autograd.functional.hessian(loss, flat)  # type: ignore[no-untyped-call]
    return float(hessian.trace())


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
