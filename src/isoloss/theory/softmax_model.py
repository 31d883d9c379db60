"""Models small enough that every derivative is a dense matrix: parameters in, logits of all contexts out."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor


@runtime_checkable
class SoftmaxModel(Protocol):
    """f_θ(context) = softmax of `logits`, for all C contexts of a `ContextLaws` at once.

    `logits` is a smooth pure function that torch can differentiate twice and map over many parameters
    (`torch.func.vmap`).
    """

    def logits(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V"]:
        """Unnormalised log-probabilities of the V words in each context."""
        ...


@dataclass(frozen=True)
class Coin:
    """One coin: Pr(heads) = σ(u v), parameters (u, v), logits (0, u v); its minimisers are uv = logit p.

    >>> Coin().logits(torch.tensor([2.0, 3.0]))
    tensor([[0., 6.]])
    """

    def logits(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V"]:
        """See `SoftmaxModel.logits`; C = 1, V = 2, P = 2."""
        heads = parameters.prod()
        return torch.stack([torch.zeros_like(heads), heads])[None]


@dataclass(frozen=True)
class LogitTable:
    """The lookup table as a model that learns: a logit of its own for each context and word, P = C V."""

    words: int

    def logits(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V"]:
        """See `SoftmaxModel.logits`."""
        return parameters.view(-1, self.words)


@dataclass(frozen=True)
class FactorTable:
    """Logits U Vᵀ, U [C, r] before V [words, r] in the parameters: a table with more parameters than laws.

    With r >= words - 1 and V of full rank, U alone moves every logit, so the minimisers are a manifold of
    codimension C (words - 1).
    """

    contexts: int
    words: int
    rank: int

    @property
    def parameters(self) -> int:
        """P = (C + V) r."""
        return (self.contexts + self.words) * self.rank

    def random_parameters(self, seed: int) -> Float[Tensor, " P"]:
        """Independent standard normal numbers, float64."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(self.parameters, generator=generator, dtype=torch.float64)

    def logits(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V"]:
        """See `SoftmaxModel.logits`."""
        rows = parameters.view(-1, self.rank)
        return rows[: self.contexts] @ rows[self.contexts :].T
