"""Feed-forward networks for theory: the base case in which enlarging keeps the trace too (paper B.4.1)."""

from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.errors import BadInput


class FeedForward(nn.Module):
    """f(x) = W_L σ(W_{L-1} .. σ(W_0 x)), no biases, σ(z) = max(z, slope z) with 0 <= slope < 1.

    `widths` are the input's, each hidden layer's and the output's; ReLU is slope 0. Weights start as He et
    al. 2015 have them, N(0, 2 / ((1 + slope²) inputs)), and the last N(0, 1 / inputs), from `seed` alone.
    Raises BadInput for fewer than one hidden layer, a width below 1 or another slope.

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

    First and last matrix are tiled and divided by √k, those between by k (B.4.1), so that each hidden vector
    is 1/√k times k copies of itself. σ is linear along rays, so this is exact; each Hessian's trace, and that
    of the Fisher information, is unchanged matrix by matrix, since k² entries (k in the first and last) each
    have a gradient 1/k (1/√k) times as large. Raises BadInput for a factor that is no integer of at least 1.

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
        # k copies of both sides divide by k, of one by √k, of none (k = 1) by 1.
        wide.data = weight.repeat(copies) / (copies[0] * copies[1]) ** 0.5
    return large.train(network.training)
