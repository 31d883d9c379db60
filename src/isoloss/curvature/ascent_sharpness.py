"""Sharpness as SAM sees it: how much the loss rises along its gradient (Foret et al. 2021)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import MeasuredParameters, gradient, trainable_parameters
from isoloss.curvature.loss import LabelDistribution, LossAtRest, mean_loss, refuse_unusable_strengths
from isoloss.curvature.stopping import refuse_too_few
from isoloss.objectives.batch import Batch, Objective, split_sentences
from isoloss.objectives.evaluation_mode import device_of, evaluation_mode
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, mean_over_sentences, paired_difference

TASK = "ascent sharpness"
RADII = (0.01, 0.05, 0.2)
"""SAM's own radius 0.05 (Foret et al. 2021; paper A.5), and about a quarter and four times of it."""
AT_ONCE = 32
"""Sentences whose gradient is taken at once, which bounds the memory of the backward pass."""


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
        return {radius: mean_over_sentences(rises) for radius, rises in self.rises.items()}

    def differences(self, reference: "AscentSharpness") -> dict[float, Estimate]:
        """Differences from `reference` on the same sentences and radii, with paired standard errors."""
        return {
            radius: paired_difference(rises, reference.rises[radius]) for radius, rises in self.rises.items()
        }


def ascent_sharpness(
    model: nn.Module,
    batches: Sequence[Batch],
    objective: Objective,
    *,
    radii: tuple[float, ...] = RADII,
    distribution: LabelDistribution | None = None,
    progress: Progress = silent,
) -> AscentSharpness:
    """The rise of the sentence-averaged loss at distance ρ along its gradient, for each ρ in `radii`.

    A single ascent step is SAM's own approximation of max L(θ + ε) - L(θ) over ||ε|| <= ρ, with the norm
    taken over all trainable parameters together. To second order it equals ρ ||g|| + (ρ²/2) ĝ·Hĝ. If the
    gradient is exactly zero, there is no direction and the rise is zero. Labels are the data's, or those of
    `distribution`.

    Makes 2 + len(radii) passes over the batches, one of them with a backward pass. Memory: two vectors of the
    parameters' size, one in float64, and a copy of the parameters, in addition to the backward pass of
    `AT_ONCE` sentences. The model is left as found. Raises BadInput for fewer than two sentences, for radii
    that are not positive, when no parameter needs a gradient, and where a logit is not finite.
    """
    refuse_unusable_strengths(radii, "radii")
    n = sum(map(len, batches))
    refuse_too_few(n)
    measured = MeasuredParameters.of(model)
    parts = [part for batch in batches for part in split_sentences(batch, -(-len(batch) // AT_ONCE))]
    firsts = [0, *itertools.accumulate(map(len, parts))]
    rises: dict[float, list[Tensor]] = {radius: [] for radius in radii}
    with evaluation_mode(model):
        direction, norm = _ascent(model, objective, parts, distribution, progress)
        for number, (part, first) in enumerate(zip(parts, firsts, strict=False), start=1):
            at_rest = LossAtRest.of(model, objective, part.to(device_of(model)), first, distribution)
            for radius in radii:
                rises[radius].append(at_rest.rise(direction, radius))
            progress(TASK, len(parts) + number, 2 * len(parts))
    return AscentSharpness({radius: torch.cat(found) for radius, found in rises.items()}, norm, measured)


def _ascent(
    model: nn.Module,
    objective: Objective,
    parts: Sequence[Batch],
    distribution: LabelDistribution | None,
    progress: Progress,
) -> tuple[dict[str, Tensor], float]:
    """g / ||g|| by parameter name, and ||g||, for the mean loss over the sentences of all parts."""
    parameters = trainable_parameters(model)
    total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    n = sum(map(len, parts))
    first = 0
    for number, part in enumerate(parts, start=1):
        loss = partial(mean_loss, model, objective, part.to(device_of(model)), first, distribution)
        of_part = gradient(loss, parameters)
        for name, values in of_part.items():
            total[name] += values * (len(part) / n)
        first += len(part)
        progress(TASK, number, 2 * len(parts))
    norm = float(torch.stack([values.square().sum() for values in total.values()]).sum().sqrt())
    return {name: (values / (norm or 1.0)).to(parameters[name]) for name, values in total.items()}, norm
