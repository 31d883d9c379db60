"""How much the loss rises nearby: along its gradient, as SAM sees it (Foret et al. 2021), and under noise."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from isoloss.curvature.derivatives import MeasuredParameters, gradient, normal_probe, trainable_parameters
from isoloss.curvature.loss import (
    BatchLoss,
    LossAtRest,
    in_parts,
    losses_of,
    refuse_unusable_strengths,
    sentence_blocks,
)
from isoloss.curvature.stopping import refuse_too_few
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation import evaluation_mode
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, mean_over_members, sample_mean

ASCENT = "ascent sharpness"
RADII = (0.01, 0.05, 0.2)
"""SAM's radius 0.05 (Foret et al. 2021; paper A.5), and about a quarter and four times of it."""


@dataclass(frozen=True)
class AscentSharpness:
    """L(θ + ρ g/||g||) - L(θ) for each radius ρ, where g = ∇L on the same sentences; in nats.

    `rises` holds each sentence's rise, float64. Standard errors are paired, i.e. those of the rises
    themselves, with the direction held fixed, as for `TopEigenvalue`.

    g is the gradient on n sentences, so the measure depends on n: near a minimum, g is dominated by the
    choice of sentences, since ||g||² exceeds ||∇L||² by the gradient's variance / n, and the first-order rise
    is ρ ||g|| (see `gradient_norm`). Fewer sentences give larger sharpness; compare only values of equal n.
    """

    rises: dict[float, Float[Tensor, " n"]]
    gradient_norm: float
    parameters: MeasuredParameters

    @property
    def estimates(self) -> dict[float, Estimate]:
        """The rise at each radius with its standard error over sentences."""
        return {radius: sample_mean(rises) for radius, rises in self.rises.items()}


def ascent_sharpness(
    model: nn.Module,
    batches: Iterable[Batch],
    objective: Objective,
    *,
    radii: tuple[float, ...] = RADII,
    progress: Progress = silent,
) -> AscentSharpness:
    """The rise of the sentence-averaged loss at distance ρ along its gradient, for each ρ in `radii`.

    A single ascent step is SAM's approximation of max L(θ + ε) - L(θ) over ||ε|| <= ρ, with the norm taken
    over all trainable parameters together. To second order it equals ρ ||g|| + (ρ²/2) ĝ·Hĝ. If the gradient
    is exactly zero, there is no direction and the rise is zero.

    Makes 2 + len(radii) passes over the batches, one of them with a backward pass. Memory: two vectors of the
    parameters' size, one in float64, a copy of the parameters and a float64 copy of the largest tensor, in
    addition to the backward pass of `AT_ONCE` sentences. The model is left as found. Raises BadInput for
    fewer than two sentences, for radii that are not positive, when no parameter needs a gradient, and where a
    logit is not finite.
    """
    refuse_unusable_strengths(radii, "radii")
    batches = list(batches)
    n = sum(map(len, batches))
    refuse_too_few(n)
    measured = MeasuredParameters.of(model)
    losses = losses_of(model, in_parts(batches), objective)
    rises: dict[float, list[Tensor]] = {radius: [] for radius in radii}
    with evaluation_mode(model):
        direction, norm = ascent_direction(losses, progress)
        for number, loss in enumerate(losses, start=1):
            at_rest = LossAtRest.of(loss)
            for radius in radii:
                rises[radius].append(at_rest.rise(direction, radius))
            progress(ASCENT, len(losses) + number, 2 * len(losses))
    return AscentSharpness({radius: torch.cat(found) for radius, found in rises.items()}, norm, measured)


def ascent_direction(
    losses: Sequence[BatchLoss], progress: Progress = silent
) -> tuple[dict[str, Tensor], float]:
    """g / ||g|| by parameter name, and ||g||, for the mean of a model's losses over all their sentences."""
    parameters = trainable_parameters(losses[0].model)
    total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    n = sum(len(loss.batch) for loss in losses)
    for number, loss in enumerate(losses, start=1):
        for name, values in gradient(loss.mean, parameters).items():
            total[name] += values * (len(loss.batch) / n)
        progress(ASCENT, number, 2 * len(losses))
    norm = float(torch.stack([values.square().sum().cpu() for values in total.values()]).sum().sqrt())
    return {name: (values / (norm or 1.0)).to(parameters[name]) for name, values in total.items()}, norm


NOISE = "weight noise"
NOISES = (0.01, 0.03, 0.1)
"""From 1 % of the weights, where the rise goes with the square of the noise, to 10 %, where it may not."""


@dataclass(frozen=True)
class NoiseSensitivity:
    """E L(θ + σ s∘ε) - L(θ), ε ~ N(0, I), for each σ; in nats.

    `rises` holds the mean over each of k blocks, which have `sentences` sentences each. Every block has its
    own draw: blocks are independent in both sentences and draws, so the deviation over blocks accounts for
    both. The estimates' `n` counts blocks, i.e. draws.
    """

    rises: dict[float, Float[Tensor, " k"]]
    sentences: Int[Tensor, " k"]
    parameters: MeasuredParameters

    @property
    def estimates(self) -> dict[float, Estimate]:
        """The expected rise at each σ; every sentence has equal weight."""
        return {noise: mean_over_members(rises, self.sentences) for noise, rises in self.rises.items()}


def noise_sensitivity(
    model: nn.Module,
    batches: Iterable[Batch],
    objective: Objective,
    *,
    noises: tuple[float, ...] = NOISES,
    scales: Mapping[str, float] | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> NoiseSensitivity:
    """The expected rise of the sentence-averaged loss under Gaussian noise of deviation σ s, σ in `noises`.

    s is one number per parameter tensor, given by name in `scales`. By default it is `tensor_scales` of the
    model itself, so that σ is relative to the current weights, and rescaling tensors without changing the
    function has no effect. Springer et al. 2025 ("Overtrained Language Models Are Harder to Fine-Tune")
    instead scale the noise by the weights before pre-training, with one scale for all checkpoints of a run:
    for that, pass `tensor_scales` of the first checkpoint. The two differ if the weights grow. With every
    scale 1 the rise is (σ²/2) Tr ∇²L to second order; in general it is (σ²/2) Σ_W s_W² Tr ∇²_W L, which at
    saturation is (σ²/2) times `NormalisedTrace.by_tensor`.

    Draws come in antithetic pairs, ε and -ε, whose mean cancels the first-order term that dominates the noise
    of a draw. There are about `BLOCKS` pairs, each on its share of the sentences, the same for all σ; they
    depend only on `seed` and the block, so that checkpoints of the same shape share them. Makes 1 + 2
    len(noises) passes over the batches, without backward passes.

    Memory: two vectors of the parameters' size, and a copy of the parameters. The model is left as found.
    Raises BadInput for fewer than two sentences, for noises that are not positive, for scales that lack a
    parameter, when no parameter needs a gradient, and if a logit is not finite.
    """
    refuse_unusable_strengths(noises, "noises")
    parameters, measured = trainable_parameters(model), MeasuredParameters.of(model)
    scales = tensor_scales(model) if scales is None else scales
    if missing := set(parameters) - set(scales):
        raise BadInput(f"the noise has no scale for {min(missing)}; take the scales of a model of this shape")
    batches = list(batches)
    blocks = sentence_blocks(batches, largest=sum(map(len, batches)))
    rises: dict[float, list[float]] = {noise: [] for noise in noises}
    with evaluation_mode(model):
        for number, loss in enumerate(losses_of(model, blocks, objective)):
            at_rest = LossAtRest.of(loss)
            draw = normal_probe(parameters, f"{seed} noise {number}")
            for name, values in draw.items():
                values *= scales[name]
            for noise in noises:
                pair = at_rest.rise(draw, noise) + at_rest.rise(draw, -noise)
                rises[noise].append(float(pair.mean() / 2))
            progress(NOISE, number + 1, len(blocks))
    return NoiseSensitivity(
        {noise: torch.tensor(found, dtype=torch.float64) for noise, found in rises.items()},
        torch.tensor([len(block) for block in blocks]),
        measured,
    )


def tensor_scales(model: nn.Module) -> dict[str, float]:
    """The root mean square of each tensor that requires a gradient, by name: ||W|| / √|W|.

    >>> layer = nn.Linear(2, 1)
    >>> _ = nn.init.constant_(layer.weight, -3.0), nn.init.zeros_(layer.bias)
    >>> tensor_scales(layer)
    {'weight': 3.0, 'bias': 0.0}
    """
    return {
        name: float(p.detach().double().square().mean().sqrt())
        for name, p in trainable_parameters(model).items()
    }
