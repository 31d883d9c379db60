"""Models small enough for dense derivatives: from parameters to the logits of all contexts."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from isoloss.curvature.measured_parameters import trainable_parameters
from isoloss.objectives.tokens import FIRST_WORD
from isoloss.theory.context_distributions import ContextDistributions, EnumeratedContexts


@runtime_checkable
class SoftmaxModel(Protocol):
    """f_θ(context) = softmax of `logits`, for all C contexts of a `ContextDistributions` at once.

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
    """The lookup table as a trainable model: one logit for each context and word, P = C V."""

    words: int

    def logits(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V"]:
        """See `SoftmaxModel.logits`."""
        return parameters.view(-1, self.words)


@dataclass(frozen=True)
class FactorTable:
    """Logits U Vᵀ, U [C, r] before V [words, r] in the parameters: a table with more parameters than
    distributions.

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


def scores(model: SoftmaxModel, parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V P"]:
    """∇_θ [-log f(context c)_y] = Σ_k f_k ∇z_k - ∇z_y, z the logits. Memory: C V P numbers, twice."""
    jacobian: Tensor = jacrev(model.logits)(parameters)
    probabilities = model.logits(parameters).softmax(dim=1)
    return (probabilities[..., None] * jacobian).sum(dim=1, keepdim=True) - jacobian


def trace(
    model: SoftmaxModel, distributions: ContextDistributions, parameters: Float[Tensor, " P"]
) -> Float[Tensor, ""]:
    """Tr F = E_c E_{y ~ f} ||score||² (paper B.1), which on the manifold of minimisers is Tr ∇²L (Lemma 3.2).

    Differentiable in the parameters. The gradients of both traces along the manifold agree, since the traces
    do.
    """
    probabilities = distributions.weight[:, None] * model.logits(parameters).softmax(dim=1)
    return (probabilities * scores(model, parameters).square().sum(dim=2)).sum()


def whitened_scores(
    model: SoftmaxModel, distributions: ContextDistributions, parameters: Float[Tensor, " P"]
) -> Float[Tensor, "CV P"]:
    """Rows √(w_c f_y) score_cy, whose Gram matrix AᵀA is the Fisher information."""
    probabilities = distributions.weight[:, None] * model.logits(parameters).softmax(dim=1)
    return (probabilities.sqrt()[..., None] * scores(model, parameters)).flatten(0, 1)


class EnumeratedTransformer:
    """A masked language model in evaluation mode, its parameters (tied ones once) concatenated in float64.

    Its scores are normalised over the words only: the distribution gives the special tokens no probability,
    which finite logits cannot, so that over the whole vocabulary the loss would have no minimiser at all. The
    model's attention must be "eager", whose operations alone can be differentiated twice. It is left
    unchanged.
    """

    def __init__(self, model: nn.Module, contexts: EnumeratedContexts) -> None:
        self._model, self._contexts = model, contexts
        named = trainable_parameters(model)
        self._names, self._shapes = list(named), [p.shape for p in named.values()]
        self._sizes = [p.numel() for p in named.values()]
        self._rows = torch.arange(len(contexts.input_ids))

    def logits(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V"]:
        """See `SoftmaxModel.logits`."""
        pieces = zip(torch.split(parameters, self._sizes), self._shapes, strict=True)
        named = dict(zip(self._names, (piece.view(shape) for piece, shape in pieces), strict=True))
        everywhere = functional_call(self._model, named, (self._contexts.input_ids,)).logits
        scores: Tensor = everywhere[self._rows, self._contexts.mask_positions, FIRST_WORD:]
        return scores


def parameter_vector(model: nn.Module) -> Float[Tensor, " P"]:
    """All trainable parameters, tied ones once, in float64.

    >>> parameter_vector(nn.Linear(2, 3)).shape
    torch.Size([9])
    """
    parts = [p.detach().double().flatten() for p in trainable_parameters(model).values()]
    return torch.cat(parts)
