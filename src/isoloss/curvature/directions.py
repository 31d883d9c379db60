"""A direction in the space of logits for each prediction, along which gradients are taken."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Directions:
    """One vector c_j for each of the m predictions; the gradient of Σ_j c_j · logits_j is what is normed.

    Where they are drawn at random, independent and with mean zero, `mean_squares` has E |c_j|². A part of the
    squared norm whose mean follows from these alone is then given by its mean, without the noise of a draw:
    that of the output layer, Σ_{j,j'} (c_j·c_j')(h_j·h_j') for its matrix, h_j its input, with the mean
    Σ_j E|c_j|² |h_j|². None of a sentence's values needs then be above zero, but their mean is the same.
    """

    cotangents: Float[Tensor, "m v"]
    mean_squares: Float[Tensor, " m"] | None = None

    def at(self, chosen: Bool[Tensor, " m"]) -> "Directions":
        """Those of some of the predictions.

        >>> import torch
        >>> Directions(torch.eye(2)).at(torch.tensor([False, True])).cotangents.tolist()
        [[0.0, 1.0]]
        """
        mean_squares = None if self.mean_squares is None else self.mean_squares[chosen]
        return Directions(self.cotangents[chosen], mean_squares)
