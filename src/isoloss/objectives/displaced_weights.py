"""Weights moved for a while, and put back to the bit."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def displaced(weights: list[Tensor], by: list[Tensor], times: float = 1.0) -> Iterator[None]:
    """Add `times` · `by` to the weights, in place, while the context is open; keeps a copy of them.

    Copied back rather than subtracted, which rounding would not undo.

    >>> weight = torch.tensor([0.1])
    >>> with displaced([weight], [torch.tensor([1.0])], times=2.0):
    ...     print(weight)
    tensor([2.1000])
    >>> weight
    tensor([0.1000])
    """
    with torch.no_grad():
        found = [weight.clone() for weight in weights]
        # One call for all, as torch's own optimisers do: of small weights the calls are what costs.
        torch._foreach_add_(weights, by, alpha=times)
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(weights, found)
