"""The downstream task of Section 5: the shortest output layer that fits n strings, on frozen features."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.theory.bracket_strings import BracketStrings


def refitted_outputs(
    features: Float[Tensor, "s m"], target: Float[Tensor, " s"], drawn: Int[Tensor, "r n"]
) -> Float[Tensor, "r s"]:
    """f on all s strings, for each of r samples of n of them, with ũ = argmin ‖u‖ such that L̂ = 0.

    ũ = Φ⁺ y over the sample's rows of Φ = `features` (Theorem 5.1; the factor 1/m of f cancels). Where no u
    fits, the least squares. r n (m + n) numbers in memory.

    >>> features = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]]).double()
    >>> refitted_outputs(features, torch.tensor([1.0, 4.0, 3.0]).double(), torch.tensor([[0]])).tolist()
    [[1.0, 0.0, 3.0]]
    """
    heads: Tensor = torch.linalg.pinv(features[drawn]) @ target[drawn][..., None]
    return heads[..., 0] @ features.T


def population_losses(outputs: Float[Tensor, "r s"], strings: BracketStrings) -> Float[Tensor, " r"]:
    """L^Pds = E (f - g*)², of each row of outputs, `strings` being the whole law."""
    return (outputs - strings.target).square() @ strings.probability
