"""Many independent runs of SGD or AdamW with fresh samples, side by side, and what they tend to as η → 0."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import vmap

from isoloss.errors import BadInput
from isoloss.panels import Axis, Colour, Lines, Panel
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, jackknifed, sample_mean
from isoloss.theory.minimisers import Minimisers
from isoloss.theory.softmax_model import ContextDistributions

DRAWS_AT_ONCE = 100_000


@dataclass(frozen=True)
class SGDSettings:
    """Learning rate η, batch size B, number of runs, and the seed of their samples."""

    learning_rate: float
    batch_size: int
    paths: int
    seed: int


def sgd_paths(
    minimisers: Minimisers,
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
    gradient_at = sampled_gradient(minimisers, settings)

    def step(parameters: Float[Tensor, "R P"]) -> Float[Tensor, "R P"]:
        return parameters - settings.learning_rate * gradient_at(parameters)

    return _observed("SGD", step, start, settings, times, progress)


def adamw_paths(
    minimisers: Minimisers,
    start: Float[Tensor, " P"],
    settings: SGDSettings,
    memory: float,
    times: Sequence[float],
    progress: Progress = silent,
) -> Iterator[Float[Tensor, "R P"]]:
    """All R runs of AdamW from one minimiser, at each of the increasing `times` t = k α²; see `sgd_paths`.

    α is the learning rate, 1 - β2 = `memory` α; β1 = 0, ε = 0 and no decay. The second moment starts at its
    value after long training there, H_ii / B, so that it needs no bias correction.
    """
    gradient_at = sampled_gradient(minimisers, settings)
    second = (minimisers.fisher_diagonal(start) / settings.batch_size).repeat(settings.paths, 1)

    def step(parameters: Float[Tensor, "R P"]) -> Float[Tensor, "R P"]:
        nonlocal second
        gradient = gradient_at(parameters)
        second = second.lerp(gradient.square(), memory * settings.learning_rate)
        return parameters - settings.learning_rate * gradient / second.sqrt()

    return _observed("AdamW", step, start, settings, times, progress)


def _observed(
    optimiser: str,
    step: Callable[[Float[Tensor, "R P"]], Float[Tensor, "R P"]],
    start: Float[Tensor, " P"],
    settings: SGDSettings,
    times: Sequence[float],
    progress: Progress,
) -> Iterator[Float[Tensor, "R P"]]:
    steps = [round(time / settings.learning_rate**2) for time in times]  # to the nearest one
    if steps != sorted(steps) or min(steps, default=0) < 0:
        raise BadInput(f"the times of runs must rise from 0, not {list(times)}")
    parameters, done = start.repeat(settings.paths, 1), 0
    for wanted in steps:
        while done < wanted:
            parameters = step(parameters)
            done += 1
            if done % 256 == 0:
                progress(optimiser, done, steps[-1])
        yield parameters


def sampled_gradient(
    minimisers: Minimisers, settings: SGDSettings
) -> Callable[[Float[Tensor, "R P"]], Float[Tensor, "R P"]]:
    """At each call, each run's gradient of the mean loss of B fresh samples of context and word."""
    logits = vmap(minimisers.logits)
    counts = _fresh_counts(minimisers.distributions, settings)

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
    shape, outcomes = distributions.joint.shape, distributions.joint.numel()
    rising = distributions.joint.flatten().cumsum(0)[:-1].contiguous()
    a_step = settings.paths * settings.batch_size
    rows = torch.arange(settings.paths).repeat_interleave(settings.batch_size) * outcomes
    while True:
        uniform = torch.rand(
            max(1, DRAWS_AT_ONCE // a_step), a_step, generator=generator, dtype=torch.float64
        )
        for drawn in torch.searchsorted(rising, uniform, right=True):
            counted = torch.bincount(rows + drawn, minlength=settings.paths * outcomes).double()
            yield counted.view(settings.paths, *shape)


def log_decay(start: float, values: Float[Tensor, " R"], unit: float) -> Estimate:
    """log(start / E values) over `unit`, with its standard error by the delta method; nan below zero."""
    mean = sample_mean(values)
    if mean.value <= 0:
        return Estimate(math.nan, math.inf, mean.n)
    return Estimate(math.log(start / mean.value) / unit, mean.standard_error / mean.value / unit, mean.n)


def root_mean_square(errors: Float[Tensor, " R"]) -> Estimate:
    """√E e² over independent runs, with its standard error by the delta method."""
    mean = sample_mean(errors.square())
    root = math.sqrt(mean.value)
    return Estimate(root, mean.standard_error / (2 * root), mean.n)


@dataclass(frozen=True)
class Line:
    """y = intercept + slope x; both have as many units as all y together, whose errors are known."""

    intercept: Estimate
    slope: Estimate


def weighted_line(x: Sequence[float], y: Sequence[Estimate]) -> Line:
    """Weighted least squares with known independent standard errors of y, which are not rescaled.

    Both are nan if a y is not finite. Raises BadInput for fewer than two points, or errors that are not
    positive.

    >>> line = weighted_line([1, 2, 3], [Estimate(y, 0.1, 10) for y in (3.0, 5.0, 7.0)])
    >>> round(line.slope.value, 9), line.slope.n
    (2.0, 30)
    """
    errors = np.array([each.standard_error for each in y])
    if len(x) < 2 or errors.min() <= 0:
        raise BadInput(f"a line needs two points with positive errors, not {len(x)} with {errors.tolist()}")
    values, n = [each.value for each in y], sum(each.n for each in y)
    if not np.isfinite(values).all():
        return Line(*[Estimate(math.nan, math.nan, n)] * 2)
    fitted, covariance = np.polyfit(x, values, 1, w=1 / errors, cov="unscaled")
    slope, intercept = (
        Estimate(value, error, n, math.inf)
        for value, error in zip(fitted.tolist(), np.sqrt(covariance.diagonal()).tolist(), strict=True)
    )
    return Line(intercept, slope)


def fitted_order(step_sizes: Sequence[float], errors: Sequence[Estimate]) -> Estimate:
    """The order of convergence: the slope of log error against log step size.

    >>> errors = [Estimate(error, 0.1, 10) for error in (1.0, 2.0, 4.0)]
    >>> round(fitted_order([0.1, 0.2, 0.4], errors).value, 6)
    1.0
    """
    logarithms = [Estimate(float(np.log(e.value)), e.standard_error / e.value, e.n) for e in errors]
    return weighted_line(np.log(step_sizes).tolist(), logarithms).slope


def gap_exponent(paths: Sequence[Sequence[tuple[float, float]]]) -> Estimate:
    """The slope of log y against log x through all points (x, y) of all paths, by least squares.

    The standard error is the jackknife's over paths, since points of a path are dependent: each path is left
    out in turn. nan if a number is not positive. Raises BadInput for fewer than two paths, or fewer than two
    points once one is left out.

    >>> estimate = gap_exponent([[(1e-2, 1e-1), (1e-4, 1e-2)], [(1e-2, 3e-1), (1e-4, 3e-2)]])
    >>> round(estimate.value, 6), estimate.n
    (0.5, 2)
    """
    n = len(paths)
    others = [[point for path in paths if path is not out for point in path] for out in paths]
    if n < 2 or min(len({x for x, _ in points}) for points in others) < 2:
        raise BadInput(
            f"{n} paths of {[len(path) for path in paths]} points settle no exponent; take more of either"
        )
    without = torch.tensor([_slope(points) for points in others], dtype=torch.float64)
    return jackknifed(_slope([point for path in paths for point in path]), without)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    x, y = np.array(points).T
    if min(x.min(), y.min()) <= 0:
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


Row = tuple[float, float, float, str, str, bool]
"""A point of a picture of paths: x, y, the error of y, the path, the series, and whether it is predicted."""


def mean_rows(
    times: Sequence[float], values: Float[Tensor, "n R"], path: str, series: str, *, unit: float = 1.0
) -> list[Row]:
    """The mean over R runs at each of n times, in multiples of `unit`, with its standard error."""
    means = [sample_mean(each / unit) for each in values]
    return [
        (time, mean.value, mean.standard_error, path, series, False)
        for time, mean in zip(times, means, strict=True)
    ]


def panel_of_paths(name: str, title: str, caption: str, x: Axis, y: Axis, rows: Sequence[Row]) -> Panel:
    """A line for each series, coloured by its path; predicted ones are dashed."""
    chart = Lines(x, y, Colour("path", "path"), series="series", predicted="predicted")
    columns = [x.column, y.column, "error", "path", "series", "predicted"]
    return Panel(name, title, caption, (chart,), pl.DataFrame(rows, columns, orient="row"))
