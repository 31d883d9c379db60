"""How the gaps of Lemma 3.2 close as a model comes straight towards the law."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.progress import Progress, silent
from isoloss.theory.bartlett_matrices import BartlettMatrices, bartlett_matrices
from isoloss.theory.minimisers import Minimisers


def approaches(
    minimisers: Minimisers,
    minimiser: Float[Tensor, " P"],
    distances: Sequence[float],
    directions: int,
    seed: int,
    progress: Progress = silent,
) -> list[list[BartlettMatrices]]:
    """The three matrices at `minimiser` + distance · direction: a row a random unit direction.

    For short distances KL is quadratic and both gaps are linear in the distance (`BartlettMatrices`).
    """
    drawn = torch.randn(
        directions, len(minimiser), generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    found: list[list[BartlettMatrices]] = []
    for number, direction in enumerate(torch.nn.functional.normalize(drawn), start=1):
        points = [minimiser + distance * direction for distance in distances]
        found.append([bartlett_matrices(minimisers.model, minimisers.laws, at) for at in points])
        progress("Lemma 3.2 near the law", number, directions)
    return found
