"""The manifold Γ of global minimisers: reaching it, its codimension, and flows along it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, hypot, log, sqrt

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_ivp
from torch import Tensor
from torch.func import grad

from isoloss.errors import BadInput, IsolossError
from isoloss.languages.random_hmm import random_hmm
from isoloss.models.transformers import PostLayerNormTransformer, Shape
from isoloss.progress import Progress, silent
from isoloss.seeds import derived_seed
from isoloss.theory.softmax_model import (
    ContextDistributions,
    Logits,
    enumerated_contexts,
    enumerated_transformer,
    parameter_vector,
    scores,
)

COEFFICIENT = 1 / 4
"""Equation (1)'s constant for batches of one sample."""

RANK_CUT_OFF = 1e-6
"""Singular values of the whitened scores below this share of the largest count as zero: eigenvalues of ∇²L
below 1e-12 of the largest, where float64's 16 digits have rounding alone."""

SATURATED = 1e-24
"""A KL in nats that is zero for all purposes: probabilities are accurate to about 1e-12."""
NEWTON_STEPS = 500


@dataclass(frozen=True)
class Minimisers:
    """Γ = {θ: softmax of the model's logits is the distribution in every context}."""

    logits: Logits
    distributions: ContextDistributions

    def kl(self, parameters: Float[Tensor, " P"]) -> float:
        """L(θ) - min L, in nats."""
        return float(self.distributions.kl(self.logits(parameters)))

    def reach(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        """A minimiser near `parameters`, by natural gradient steps with Levenberg and Marquardt's damping.

        A step is -Aᵀ(AAᵀ + λ)⁻¹ r = -(F + λ)⁻¹ ∇L, with A the whitened scores and Aᵀr = ∇L; λ falls if KL
        does. At the distribution F = ∇²L (Lemma 3.2), so that as λ → 0 this is Newton's method, quadratic,
        and each step is the shortest to its target: close to Γ, a retraction. Raises IsolossError if KL stays
        above `SATURATED`.
        """
        damping, kl = 1e-3, self.kl(parameters)
        for _ in range(NEWTON_STEPS):
            if kl <= SATURATED:
                return parameters
            _, rows, predicted = self._whitened(parameters)
            scale = (self.distributions.weight[:, None] / predicted).sqrt()
            residual = (self.distributions.distribution - predicted) * scale
            moved = parameters - least_change(rows, residual.flatten(), damping)
            kl_moved = self.kl(moved)
            if kl_moved < kl:
                parameters, kl, damping = moved, kl_moved, max(damping / 5, 1e-14)
            else:
                damping *= 4
        raise IsolossError(
            f"after {NEWTON_STEPS} Newton steps the model is still {kl:.3g} nats from the distribution; it "
            "is too small for the language, or starts too far away"
        )

    def singular_values(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, " k"]:
        """Of the whitened scores, from the largest: on Γ the roots of the eigenvalues of ∇²L."""
        values: Tensor = torch.linalg.svdvals(self.whitened_scores(parameters))
        return values

    def codimension(self, parameters: Float[Tensor, " P"]) -> int:
        """The rank of ∇²L on Γ, at `RANK_CUT_OFF`."""
        values = self.singular_values(parameters)
        return int((values > RANK_CUT_OFF * values[0]).sum())

    def whitened_scores(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, "CV P"]:
        """Rows √(w_c f_y) score_cy, whose Gram matrix AᵀA is the Fisher information."""
        return self._whitened(parameters)[1]

    def _whitened(
        self, parameters: Float[Tensor, " P"]
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "CV P"], Float[Tensor, "C V"]]:
        """Tr F = E_c E_{y ~ f} ||score||² (paper B.1), the whitened scores and the model's probabilities."""
        found, probabilities = scores(self.logits, parameters)
        joint = self.distributions.weight[:, None] * probabilities
        trace = (joint * found.square().sum(dim=2)).sum()
        return trace, (joint.sqrt()[..., None] * found).flatten(0, 1), probabilities

    def trace(self, parameters: Float[Tensor, " P"]) -> float:
        """Tr F, on Γ Tr ∇²L (Lemma 3.2)."""
        return float(self._whitened(parameters)[0])

    def fisher_diagonal(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        """F_ii = E_c E_{y ~ f} g_i², which equal H_ii on Γ; differentiable in the parameters."""
        return self.whitened_scores(parameters).square().sum(dim=0)

    def trace_gradient(self, parameters: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        """∇_Γ Tr ∇²L: the gradient of Tr F, on Γ the same, projected onto the tangent space."""
        gradient, rows = grad(lambda at: self._whitened(at)[:2], has_aux=True)(parameters)
        _, values, normals = torch.linalg.svd(rows, full_matrices=False)
        normals = normals[values > RANK_CUT_OFF * values[0]]
        tangent: Tensor = gradient - normals.T @ (normals @ gradient)
        return tangent


def least_change(
    jacobian: Float[Tensor, "n p"], change: Float[Tensor, " n"], damping: float
) -> Float[Tensor, " p"]:
    """The least δ with J δ = `change`, with `damping` added to J Jᵀ, relative to its mean diagonal."""
    gram = jacobian @ jacobian.T
    gram.diagonal().add_(damping * gram.diagonal().mean())
    least: Tensor = jacobian.T @ torch.linalg.solve(gram, change)
    return least


def trace_flow(
    minimisers: Minimisers,
    start: Float[Tensor, " P"],
    times: Sequence[float],
    *,
    batch_size: int = 1,
    relative_tolerance: float = 1e-8,
    progress: Progress = silent,
) -> Float[Tensor, "n P"]:
    """θ(t) at each of the increasing `times`: dθ/dt = -(1/4B) ∇_Γ Tr ∇²L from `start` on Γ (equation (1)).

    Raises what `flow_along` raises.
    """
    return flow_along(
        minimisers,
        lambda at: -COEFFICIENT / batch_size * minimisers.trace_gradient(at),
        start,
        times,
        relative_tolerance=relative_tolerance,
        progress=progress,
    )


def flow_along(
    minimisers: Minimisers,
    right_side: Callable[[Float[Tensor, " P"]], Float[Tensor, " P"]],
    start: Float[Tensor, " P"],
    times: Sequence[float],
    *,
    relative_tolerance: float,
    progress: Progress = silent,
) -> Float[Tensor, "n P"]:
    """θ(t) of dθ/dt = `right_side`(θ), tangent to Γ, at each of the increasing `times` from `start` on Γ.

    Dormand and Prince's adaptive pair of orders 5 and 4 (scipy). The right side is tangent to the level sets
    of the distribution off Γ too, so that only the integrator's error leaves Γ; Newton's method corrects
    it at each of `times` (projection, Hairer, Lubich and Wanner 2006, IV.4). Raises IsolossError if it fails.
    """

    def of_arrays(_time: float, at: np.ndarray) -> np.ndarray:
        result: np.ndarray = right_side(torch.from_numpy(at)).numpy()
        return result

    path, now, at = [], 0.0, start
    for number, time in enumerate(times, start=1):
        if time > now:
            solved = solve_ivp(
                of_arrays, (now, time), at.numpy(), rtol=relative_tolerance, atol=relative_tolerance
            )
            if not solved.success:
                raise IsolossError(f"the flow cannot be integrated beyond t = {now:g}: {solved.message}")
            at, now = minimisers.reach(torch.from_numpy(solved.y[:, -1].copy())), time
        path.append(at)
        progress("flow along the minimisers", number, len(times))
    return torch.stack(path)


def factor_table(
    words: int, rank: int, *, language_seed: int, start_seed: int, length: int = 2
) -> tuple[Minimisers, Float[Tensor, " P"]]:
    """The minimisers of logits U Wᵀ on a random hidden Markov model of two states, and a normal start.

    U [C, r] comes before W [V, r] in the parameters, more of them than the loss determines: with r >= V - 1
    and W of full rank, U alone moves every logit, so the minimisers are a manifold of codimension C (V - 1).
    """
    language = random_hmm(words=words, states=2, blocks=1, length=length, seed=language_seed)
    distributions = enumerated_contexts(language).distributions
    contexts, generator = len(distributions.weight), torch.Generator().manual_seed(start_seed)
    start = torch.randn((contexts + words) * rank, generator=generator, dtype=torch.float64)

    def logits(parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V"]:
        rows = parameters.view(-1, rank)
        return rows[:contexts] @ rows[contexts:].T

    return Minimisers(logits, distributions), start


def exact_transformer(
    width: int, spread: float, seed: int, words: int = 2
) -> tuple[Minimisers, Float[Tensor, " P"]]:
    """A one-layer transformer's minimisers on sentences of two of `words` words, and one of them.

    The start is BERT's initialisation plus normal noise of standard deviation `spread`.
    """
    language = random_hmm(words=words, states=2, blocks=1, length=2, seed=seed)
    contexts = enumerated_contexts(language)
    architecture = PostLayerNormTransformer(Shape(width, 2, 1, 2 * width), dropout=0.0, attention="eager")
    model = architecture.build(words, 2, seed).double().eval()
    minimisers = Minimisers(enumerated_transformer(model, contexts), contexts.distributions)
    initial = parameter_vector(model)
    generator = torch.Generator().manual_seed(derived_seed(seed, "start"))
    noise = torch.randn(len(initial), generator=generator, dtype=torch.float64)
    return minimisers, minimisers.reach(initial + spread * noise)


def coin_logits(parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V"]:
    """Pr(heads) = σ(Σ u_j v_j), the u before the v in the parameters; with one pair, σ(u v).

    >>> coin_logits(torch.tensor([2.0, 3.0])), coin_logits(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    (tensor([[0., 6.]]), tensor([[ 0., 11.]]))
    """
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
        """Γ of `coin_logits`, with any number of pairs."""
        return Minimisers(coin_logits, self.distributions)

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
