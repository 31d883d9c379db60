"""Section 5's model: one attention layer, read at the first token, and an MLP on what it attends to."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.theory.bracket_strings import BracketStrings


@dataclass(frozen=True)
class OneLayerTransformer:
    """f(x) = (1/m) uᵀ σ(V h), h = Σ_j a_j x_j, a = softmax_j ⟨Q x_1, K x_j⟩ (Section 5), in float64.

    σ is the ReLU, with derivative 0 at 0. `query` and `key` are Q and K, `value` is V, `output` is u.
    """

    query: Float[Tensor, "k d"]
    key: Float[Tensor, "k d"]
    value: Float[Tensor, "m d"]
    output: Float[Tensor, " m"]

    @property
    def neurons(self) -> int:
        """m."""
        return len(self.output)

    def parameters(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Q, K, V, u: the order in which derivatives are stacked."""
        return self.query, self.key, self.value, self.output

    def flat(self) -> Float[Tensor, " p"]:
        """All parameters in one vector."""
        return torch.cat([parameter.flatten() for parameter in self.parameters()])

    def with_flat(self, flat: Float[Tensor, " p"]) -> "OneLayerTransformer":
        """A model of the same shape with these parameters."""
        parts = torch.split(flat, [parameter.numel() for parameter in self.parameters()])
        shaped = [part.view(old.shape) for part, old in zip(parts, self.parameters(), strict=True)]
        return OneLayerTransformer(*shaped)

    def attention(self, tokens: Float[Tensor, "n T d"]) -> Float[Tensor, "n T"]:
        """The attention a of the first token."""
        queries = tokens[:, 0] @ self.query.T
        return torch.einsum("nk,kd,ntd->nt", queries, self.key, tokens).softmax(1)

    def attended(self, tokens: Float[Tensor, "n T d"]) -> Float[Tensor, "n d"]:
        """h."""
        return torch.einsum("nt,ntd->nd", self.attention(tokens), tokens)

    def features(self, tokens: Float[Tensor, "n T d"]) -> Float[Tensor, "n m"]:
        """σ(V h): what the output layer reads."""
        return self.preactivations(self.attended(tokens)).relu()

    def preactivations(self, attended: Float[Tensor, "n d"]) -> Float[Tensor, "n m"]:
        """V h, and 0 where rounding alone could tell it from 0: |V| |h| d epsilon bounds a product's error.

        So a neuron at its kink stays there in whatever order a processor adds.
        """
        products = attended @ self.value.T
        with torch.no_grad():
            rounding = attended.shape[1] * torch.finfo(products.dtype).eps
            at_kink = products.abs() <= rounding * (attended.abs() @ self.value.abs().T)
        return products.masked_fill(at_kink, 0.0)

    def outputs(self, tokens: Float[Tensor, "n T d"]) -> Float[Tensor, " n"]:
        """f(x)."""
        return self.features(tokens) @ self.output / self.neurons


def squared_loss(model: OneLayerTransformer, strings: BracketStrings) -> Float[Tensor, ""]:
    """L = E (f(x) - g*(x))²."""
    return strings.mean((model.outputs(strings.tokens) - strings.target).square())


def farthest_output(model: OneLayerTransformer, strings: BracketStrings) -> float:
    """The largest |f(x) - g*(x)| of any string."""
    return float((model.outputs(strings.tokens) - strings.target).abs().max())
