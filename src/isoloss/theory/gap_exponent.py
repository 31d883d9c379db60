"""The exponent in a power law between two measured numbers, over several independent paths of points."""

from collections.abc import Sequence

import numpy as np

from isoloss.errors import BadInput
from isoloss.estimate import Estimate


def gap_exponent(paths: Sequence[Sequence[tuple[float, float]]]) -> Estimate:
    """The slope of log y against log x through all points (x, y) of all paths, by least squares.

    The standard error is the jackknife's over paths, whose points hang together: each path is left out in
    turn. nan where a number is not positive. Raises BadInput for fewer than two paths, or fewer than two
    points once one is left out.

    >>> estimate = gap_exponent([[(1e-2, 1e-1), (1e-4, 1e-2)], [(1e-2, 3e-1), (1e-4, 3e-2)]])
    >>> round(estimate.value, 6), estimate.n
    (0.5, 2)
    """
    n = len(paths)
    kept = [[point for path in paths if path is not out for point in path] for out in paths]
    if n < 2 or min(len({x for x, _ in points}) for points in kept) < 2:
        raise BadInput(
            f"{n} paths of {[len(path) for path in paths]} points settle no exponent; take more of either"
        )
    without = np.array([_slope(points) for points in kept])
    spread = ((n - 1) / n * ((without - without.mean()) ** 2).sum()) ** 0.5
    return Estimate(_slope([point for path in paths for point in path]), float(spread), n)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    x, y = np.array(points).T
    if min(x.min(), y.min()) <= 0:
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
