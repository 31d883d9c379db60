"""A straight line through measured points: the orders of convergence and the limits of step sizes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isoloss.errors import BadInput


@dataclass(frozen=True)
class Line:
    """y = intercept + slope x, with the standard errors of both."""

    intercept: float
    intercept_error: float
    slope: float
    slope_error: float


def weighted_line(x: Sequence[float], y: Sequence[float], errors: Sequence[float]) -> Line:
    """Weighted least squares with known independent standard errors of y, which are taken at their word.

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
