"""Weights moved for a while, and put back to the bit."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


@contextmanager
def displaced(weights: Sequence[Tensor], by: Sequence[Tensor], times: float | Tensor = 1.0) -> Iterator[None]:
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
        for weight, displacement in zip(weights, by, strict=True):
            weight += times * displacement
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, original in zip(weights, found, strict=True):
                weight.copy_(original)
