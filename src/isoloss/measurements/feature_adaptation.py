"""What is done to features before a probe reads them, learnt from the training sentences alone.

A probe's learning rate is the same whatever the scale of the features, so that flatter models with smaller
vectors could seem worse; standardised features have one scale. Projected ones have one dimension, so that
models of several widths are probed by heads of equal capacity.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.measurements.sentence_features import gaussian_projection

Features = tuple[Float[Tensor, "n D"], Float[Tensor, "n_test D"]]
"""Of the training and of the test sentences."""


@runtime_checkable
class FeatureAdaptation(Protocol):
    """A frozen dataclass."""

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """The features [n, D] and [n_test, D] as the probe reads them; what is learnt is `train`'s."""
        ...


@dataclass(frozen=True)
class AsTheyAre:
    """The paper's probe: neither centred nor scaled."""

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """See `FeatureAdaptation`."""
        return train, test


@dataclass(frozen=True)
class Standardised:
    """Every feature has mean 0 and deviation 1 on the training sentences; a constant one becomes 0."""

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """See `FeatureAdaptation`.

        >>> seen, unseen = torch.tensor([[0.0, 3.0], [2.0, 3.0]]), torch.tensor([[5.0, 3.0]])
        >>> train, test = Standardised().adapted(seen, unseen)
        >>> train.tolist(), test.tolist()
        ([[-1.0, 0.0], [1.0, 0.0]], [[4.0, 0.0]])
        """
        mean, deviation = train.mean(0), train.std(0, correction=0)
        # What is constant up to rounding would only be noise.
        constant = deviation <= 1e-6 * train.abs().amax(0)
        scale = torch.where(constant, 0.0, 1 / torch.where(constant, 1.0, deviation))
        return (train - mean) * scale, (test - mean) * scale


@dataclass(frozen=True)
class Projected:
    """Features wider than `dimension` brought down to it by one `gaussian_projection`, the paper's option.

    Narrower ones are left as they are, as the paper does: to compare widths at one capacity, choose a
    dimension that the narrowest model reaches.
    """

    dimension: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise BadInput(f"features cannot be projected to {self.dimension} dimensions; give at least 1")

    def adapted(self, train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
        """See `FeatureAdaptation`."""
        if train.shape[1] <= self.dimension:
            return train, test
        projected = (gaussian_projection(features, self.seed, self.dimension) for features in (train, test))
        return next(projected), next(projected)
