"""The ordinary differential equation of Theorem 3.3: gradient flow of the trace along the minimisers."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from scipy.integrate import solve_ivp
from torch import Tensor

from isoloss.errors import IsolossError
from isoloss.progress import Progress, silent
from isoloss.theory.minimisers import Minimisers

COEFFICIENT = 1 / 4
"""Equation (1)'s constant for batches of one sample."""


def trace_flow(
    minimisers: Minimisers,
    start: Float[Tensor, " P"],
    times: Sequence[float],
    *,
    batch_size: int = 1,
    coefficient: float = COEFFICIENT,
    relative_tolerance: float = 1e-8,
    progress: Progress = silent,
) -> Float[Tensor, "n P"]:
    """θ(t) at each of the rising `times`: dθ/dt = -(1/4B) ∇_Γ Tr ∇²L from `start` on Γ (equation (1)).

    Dormand and Prince's adaptive pair of orders 5 and 4 (scipy). The right side is tangent to the level sets
    of the law off Γ too, so that only the integrator's own error leaves Γ; Newton's method takes it back at
    each of `times` (projection, Hairer, Lubich and Wanner 2006, IV.4). Raises IsolossError where it fails.
    """

    def right_side(_time: float, at: np.ndarray) -> np.ndarray:
        slope = minimisers.trace_gradient(torch.from_numpy(at))
        result: np.ndarray = (-coefficient / batch_size * slope).numpy()
        return result

    path, now, at = [], 0.0, start
    for number, time in enumerate(times, start=1):
        if time > now:
            solved = solve_ivp(
                right_side, (now, time), at.numpy(), rtol=relative_tolerance, atol=relative_tolerance
            )
            if not solved.success:
                raise IsolossError(f"the flow cannot be integrated beyond t = {now:g}: {solved.message}")
            at, now = minimisers.reach(torch.from_numpy(solved.y[:, -1].copy())), time
        path.append(at)
        progress("flow of the trace", number, len(times))
    return torch.stack(path)
