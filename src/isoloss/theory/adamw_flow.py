"""AdamW among the minimisers: many runs side by side, and the flow that they follow as α → 0.

At the distribution the mean gradient of B samples has mean 0 and covariance H / B (Lemma 3.2), so that Adam's
second moment is H_ii / B and its step is -α D g, D = √B diag(H_ii)^(-1/2). With D held fixed this is SGD in
the coordinates D^(-1/2) θ, and the limit of Li, Wang and Arora (2022), Theorem 3.3's, is there
dθ/dt = -(1/4B) D^½ P D^½ ∇ Tr(D H), t = kα², P the projection to the minimisers. Since D is √B over the roots
of the diagonal, ∇ Tr(D H) = 2 √B ∇ Σ √H_ii, and

    dθ/dt = -½ S^(-½) P S^(-½) ∇ Σ_i √H_ii,   S = diag √H_ii:

a gradient flow of Σ √H_ii, not of the trace, by a clock α²k without the batch.

This assumes that the second moment is a function of the slow motion alone: 1 - β2 small compared with the
rates α a_j at which AdamW returns to the minimisers, a_j being the eigenvalues of D^½ H D^½. A faster second
moment follows the swings about the minimisers, and is then not independent of the gradient that it divides.
With 1 - β2 = κα, the share f_j = κ / (κ + a_j) of the swing along n_j is followed, and to order α² that adds

    (1 / 4√B) H_ii^(-3/2) D_i^(-½) Σ_k M_ik D_k^½ (∂_k E g_i² - 2 E g_i² g_k),   M = Σ_j f_j a_j n_j n_jᵀ,

(of one sample's g) where the second term is the skewness of what the moment remembers, and, of the step's own
gradient in it, (κ / 2√B) H_ii^(-3/2) E g_i³; both along the minimisers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, jacrev

from isoloss.progress import Progress, silent
from isoloss.theory.minimisers import RANK_CUT_OFF, Minimisers, flow_along
from isoloss.theory.sgd_paths import SGDSettings, rising_steps, sampled_gradient
from isoloss.theory.softmax_model import scores, whitened_scores

SOURCE = "beyond the paper: Theorem 3.3's limit, with AdamW's preconditioner"


@dataclass(frozen=True)
class AdamWSettings:
    """SGD's settings, with learning rate α; 1 - β2 = `memory` α, and β1. No decay, and ε = 0."""

    samples: SGDSettings
    memory: float
    first_beta: float = 0.0


def adamw_paths(
    minimisers: Minimisers,
    start: Float[Tensor, " P"],
    settings: AdamWSettings,
    times: Sequence[float],
    progress: Progress = silent,
) -> Iterator[Float[Tensor, "R P"]]:
    """All R runs of AdamW from one minimiser, at each of the increasing `times` t = k α².

    The second moment starts at its value after long training there, H_ii / B, and the first at 0, so that
    neither needs Adam's bias correction. Samples are drawn as in `sgd_paths`. Raises BadInput if the times do
    not increase.
    """
    samples = settings.samples
    steps = rising_steps(samples, times)
    gradient_at = sampled_gradient(minimisers.model, minimisers.distributions, samples)
    parameters = start.repeat(samples.paths, 1)
    first = torch.zeros_like(parameters)
    second = (fisher_diagonal(minimisers, start) / samples.batch_size).repeat(samples.paths, 1)
    forgotten, done = settings.memory * samples.learning_rate, 0
    for wanted in steps:
        while done < wanted:
            gradient = gradient_at(parameters)
            first = first.lerp(gradient, 1 - settings.first_beta)
            second = second.lerp(gradient.square(), forgotten)
            parameters = parameters - samples.learning_rate * first / second.sqrt()
            done += 1
            if done % 256 == 0:
                progress("AdamW", done, steps[-1])
        yield parameters


def fisher_diagonal(minimisers: Minimisers, parameters: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
    """F_ii = E_c E_{y ~ f} g_i², which equal H_ii on Γ; differentiable in the parameters."""
    return whitened_scores(minimisers.model, minimisers.distributions, parameters).square().sum(dim=0)


def sum_of_roots(minimisers: Minimisers, parameters: Float[Tensor, " P"]) -> Float[Tensor, ""]:
    """Σ_i √H_ii, which AdamW's flow descends."""
    return fisher_diagonal(minimisers, parameters).sqrt().sum()


def adamw_drift(
    minimisers: Minimisers, at: Float[Tensor, " P"], memory: float = 0.0, batch_size: int = 1
) -> Float[Tensor, " P"]:
    """dθ/dt on Γ in t = kα², as in the module's docstring; with `memory` 0, the flow of Σ √H_ii alone."""
    diagonal = fisher_diagonal(minimisers, at)
    root_scale = (batch_size / diagonal).sqrt().sqrt()  # D^½
    rows = whitened_scores(minimisers.model, minimisers.distributions, at) * root_scale
    _, values, normals = torch.linalg.svd(rows, full_matrices=False)
    known = values > RANK_CUT_OFF * values[0]
    rates, normals = values[known] ** 2, normals[known]
    slope = grad(lambda parameters: sum_of_roots(minimisers, parameters))(at)
    # In the coordinates D^(-½) θ; S^(-½) is D^½ B^(-¼).
    drift = -root_scale * slope / (2 * batch_size**0.5)
    if memory:
        followed = memory / (memory + rates) * rates
        swings = normals.T @ (followed[:, None] * normals)
        changes, skewness = _moments(minimisers, at)
        cubed = batch_size**-0.5 * diagonal**-1.5 / root_scale
        drift = drift + cubed / root_scale * (swings * root_scale * (changes - 2 * skewness)).sum(dim=1) / 4
        drift = drift + cubed * memory * skewness.diagonal() / 2
    tangent: Tensor = root_scale * (drift - normals.T @ (normals @ drift))
    return tangent


def _moments(
    minimisers: Minimisers, at: Float[Tensor, " P"]
) -> tuple[Float[Tensor, "P P"], Float[Tensor, "P P"]]:
    """∂_k E g_i² and E g_i² g_k, for one sample drawn from the distribution."""
    model, joint = minimisers.model, minimisers.distributions.joint

    def second_moment(parameters: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        return (joint[..., None] * scores(model, parameters).square()).sum(dim=(0, 1))

    changes: Tensor = jacrev(second_moment)(at)
    own = scores(model, at).flatten(0, 1)
    return changes, (joint.flatten()[:, None] * own.square()).T @ own


def adamw_flow(
    minimisers: Minimisers,
    start: Float[Tensor, " P"],
    times: Sequence[float],
    *,
    memory: float = 0.0,
    batch_size: int = 1,
    progress: Progress = silent,
) -> Float[Tensor, "n P"]:
    """θ(t) of `adamw_drift` at each of the increasing `times`, from `start` on Γ.

    Raises what `flow_along` raises.
    """
    return flow_along(
        minimisers,
        lambda at: adamw_drift(minimisers, at, memory, batch_size),
        start,
        times,
        relative_tolerance=1e-6,
        progress=progress,
    )
