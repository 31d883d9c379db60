"""Many independent runs of plain SGD with fresh samples, side by side."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.func import vmap

from isoloss.errors import BadInput
from isoloss.progress import Progress, silent
from isoloss.theory.context_distributions import ContextDistributions
from isoloss.theory.softmax_model import SoftmaxModel

DRAWS_AT_ONCE = 100_000


@dataclass(frozen=True)
class SGDSettings:
    """Learning rate η, batch size B, number of runs, and the seed of their samples."""

    learning_rate: float
    batch_size: int
    paths: int
    seed: int

    def steps(self, time: float) -> int:
        """k = t / η², to the nearest step."""
        return round(time / self.learning_rate**2)


def sgd_paths(
    model: SoftmaxModel,
    distributions: ContextDistributions,
    start: Float[Tensor, " P"],
    settings: SGDSettings,
    times: Sequence[float],
    progress: Progress = silent,
) -> Iterator[Float[Tensor, "R P"]]:
    """All R runs from one start, at each of the increasing `times` t = k η² (Theorem 3.3), one by one.

    θ ← θ - η ∇ of the mean loss of B fresh samples of context and word, drawn independently for each run and
    step from one generator: no momentum, decay or dropout. Contexts are enumerated, so a batch is the counts
    of its samples. Memory: two forward passes of size R C V and `DRAWS_AT_ONCE` samples. Raises BadInput if
    the times do not increase.
    """
    steps = rising_steps(settings, times)
    gradient_at = sampled_gradient(model, distributions, settings)
    parameters = start.repeat(settings.paths, 1)
    done = 0
    for wanted in steps:
        while done < wanted:
            parameters = parameters - settings.learning_rate * gradient_at(parameters)
            done += 1
            if done % 256 == 0:
                progress("SGD", done, steps[-1])
        yield parameters


def rising_steps(settings: SGDSettings, times: Sequence[float]) -> list[int]:
    """The steps of those times. Raises BadInput if they do not increase."""
    steps = [settings.steps(time) for time in times]
    if steps != sorted(steps) or min(steps, default=0) < 0:
        raise BadInput(f"the times of runs must rise from 0, not {list(times)}")
    return steps


def sampled_gradient(
    model: SoftmaxModel, distributions: ContextDistributions, settings: SGDSettings
) -> Callable[[Float[Tensor, "R P"]], Float[Tensor, "R P"]]:
    """At each call, each run's gradient of the mean loss of B fresh samples of context and word."""
    logits = vmap(model.logits)
    counts = _fresh_counts(distributions, settings)

    def gradient_at(parameters: Float[Tensor, "R P"]) -> Float[Tensor, "R P"]:
        leaf = parameters.detach().requires_grad_(True)
        surprise = -(next(counts) * logits(leaf).log_softmax(dim=2)).sum()
        (gradient,) = torch.autograd.grad(surprise, leaf)
        return gradient / settings.batch_size

    return gradient_at


def _fresh_counts(
    distributions: ContextDistributions, settings: SGDSettings
) -> Iterator[Float[Tensor, "R C V"]]:
    """For each step, the count of each context and word among each run's B samples."""
    generator = torch.Generator().manual_seed(settings.seed)
    outcomes = distributions.joint.numel()
    rising = distributions.joint.flatten().cumsum(0)[:-1].contiguous()
    a_step = settings.paths * settings.batch_size
    rows = torch.arange(settings.paths).repeat_interleave(settings.batch_size) * outcomes
    while True:
        uniform = torch.rand(
            max(1, DRAWS_AT_ONCE // a_step), a_step, generator=generator, dtype=torch.float64
        )
        for drawn in torch.searchsorted(rising, uniform, right=True):
            yield _counted(rows + drawn, settings.paths * outcomes).view(
                settings.paths, *distributions.joint.shape
            )


def _counted(drawn: Int[Tensor, " m"], outcomes: int) -> Float[Tensor, " k"]:
    return torch.bincount(drawn, minlength=outcomes).double()


@dataclass(frozen=True)
class Line:
    """y = intercept + slope x, with the standard errors of both."""

    intercept: float
    intercept_error: float
    slope: float
    slope_error: float


def weighted_line(x: Sequence[float], y: Sequence[float], errors: Sequence[float]) -> Line:
    """Weighted least squares with known independent standard errors of y, which are not rescaled.

    Raises BadInput for fewer than two points, or errors that are not positive.

    >>> weighted_line([1, 2, 3], [3, 5, 7], [0.1, 0.1, 0.1]).slope
    2.0...
    """
    if len(x) < 2 or min(errors) <= 0:
        raise BadInput(f"a line needs two points with positive errors, not {len(x)} with {list(errors)}")
    weight = np.asarray(errors, float) ** -2
    x_array, y_array = np.asarray(x, float), np.asarray(y, float)
    total = weight.sum()
    x_mean, y_mean = weight @ x_array / total, weight @ y_array / total
    spread = weight @ (x_array - x_mean) ** 2
    slope = weight @ ((x_array - x_mean) * (y_array - y_mean)) / spread
    intercept_error = (1 / total + x_mean**2 / spread) ** 0.5
    return Line(float(y_mean - slope * x_mean), float(intercept_error), float(slope), float(spread**-0.5))


def fitted_order(step_sizes: Sequence[float], errors: Sequence[float], deviations: Sequence[float]) -> Line:
    """log error against log step size: `slope` is the order of convergence.

    `deviations` are the standard errors of `errors`; those of the logarithms are their ratios.

    >>> round(fitted_order([0.1, 0.2, 0.4], [1.0, 2.0, 4.0], [0.1, 0.1, 0.1]).slope, 6)
    1.0
    """
    relative = [deviation / error for error, deviation in zip(errors, deviations, strict=True)]
    return weighted_line(np.log(step_sizes).tolist(), np.log(errors).tolist(), relative)
