"""One coin, p = σ(Σ u_j v_j): a model with a curve of minimisers, and Theorem 3.3 on it in closed form."""

from dataclasses import dataclass
from math import exp, hypot, log, sqrt

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.theory.minimisers import Minimisers
from isoloss.theory.softmax_model import ContextDistributions


@dataclass(frozen=True)
class Coin:
    """Pr(heads) = σ(Σ u_j v_j), the u before the v in the parameters; with one pair, σ(u v).

    >>> Coin().logits(torch.tensor([2.0, 3.0])), Coin().logits(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    (tensor([[0., 6.]]), tensor([[ 0., 11.]]))
    """

    def logits(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V"]:
        """See `SoftmaxModel.logits`; C = 1, V = 2."""
        heads = parameters.view(2, -1).prod(0).sum()
        return torch.stack([torch.zeros_like(heads), heads])[None]


@dataclass(frozen=True)
class BiasedCoin:
    """A coin with probability `heads` of heads, between 0 and 1, and Theorem 3.3's predictions for it.

    L(u, v) = E[-log σ(±uv)] has the minimisers uv = logit p and there ∇²L = p(1-p) (v, u)(v, u)ᵀ, of trace
    p(1-p)(u² + v²). Along the tangent (u, -v) its gradient is 2p(1-p)(u² - v²)/√(u² + v²), so that under
    equation (1) D = u² - v² obeys dD/dt = -p(1-p) D / B: it decays to u² = v²,
    the flattest point. SGD gives the same without the theorem: one step of logit gradient g multiplies D by
    exactly 1 - η²g², and E g² = p(1-p)/B on the curve.
    """

    heads: float

    def __post_init__(self) -> None:
        if not 0 < self.heads < 1:
            raise BadInput(f"a coin shows heads with a probability between 0 and 1, not {self.heads}")

    @property
    def distributions(self) -> ContextDistributions:
        """One context; tails is word 0, heads word 1."""
        distribution = torch.tensor([[1 - self.heads, self.heads]], dtype=torch.float64)
        return ContextDistributions(torch.ones(1, dtype=torch.float64), distribution)

    @property
    def minimisers(self) -> Minimisers:
        """Γ of `Coin`, with any number of pairs."""
        return Minimisers(Coin(), self.distributions)

    @property
    def logit(self) -> float:
        """uv on the minimisers."""
        return log(self.heads / (1 - self.heads))

    def decay_rate(self, batch_size: int) -> float:
        """The decay rate of u² - v², per unit of t = k η².

        >>> BiasedCoin(0.5).decay_rate(batch_size=2)
        0.125
        """
        return self.heads * (1 - self.heads) / batch_size

    def minimiser(self, difference: float) -> Float[Tensor, " 2"]:
        """(u, v) with u > 0, uv = logit p and u² - v² = `difference`.

        Raises BadInput for a fair coin with a difference that is not positive, where u > 0 is impossible.
        """
        total = hypot(difference, 2 * self.logit)
        if total + difference <= 0:
            raise BadInput("a fair coin's minimisers with u > 0 have u² - v² > 0; give such a difference")
        u = sqrt((total + difference) / 2)
        return torch.tensor([u, self.logit / u], dtype=torch.float64)

    def flow(self, difference: float, time: float, batch_size: int) -> Float[Tensor, " 2"]:
        """θ(t) of equation (1) from `minimiser(difference)`.

        >>> BiasedCoin(0.8).flow(3.0, 1e6, batch_size=1)
        tensor([1.1774, 1.1774], dtype=torch.float64)
        """
        return self.minimiser(difference * exp(-self.decay_rate(batch_size) * time))
