"""How fast SGD's drift lowers the trace, by Theorem 3.3, from derivatives at one point alone."""

from collections.abc import Callable
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.trace_gradient import fisher_trace_gradient, fisher_vector_product
from isoloss.errors import BadInput
from isoloss.estimate import Estimate
from isoloss.objectives.batch import Batch, Objective
from isoloss.progress import Progress, silent

PARTS = 4
"""Independent gradients of the trace: their products have no bias, and their spread is the error."""


def trace_descent_rate(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    distance: float,
    *,
    seed: int = 0,
    products: int = 12,
    progress: Progress = silent,
) -> Estimate:
    """-dTr/dτ = gᵀ exp(-d F) g: g = ∇Tr F, F the Fisher information, d = ηk the `distance` descended so far.

    In the valley of the loss SGD's mean path obeys dθ/dτ = -∇Tr ∇²L - (4B/η) ∇L, with τ = η²k / 4B. Along a
    direction of curvature λ the second term stops the first once ηkλ is large, and then Tr no longer falls by
    it: the velocity left is -g exp(-ηkλ). For curvatures that are either 0 or large that is the flow of
    Theorem 3.3, -||∇_Γ Tr||²; a trained transformer's go down to 0 without a gap, so that there is no Γ to
    project on.

    The batch's sentences make F and, in `PARTS` parts, independent values of g, of whose pairs the mean is
    taken; the standard error is the jackknife's over parts. exp(-d F) g by `damped`. `n` counts sentences.
    Raises BadInput for a distance below 0 or fewer sentences than parts.
    """
    if not distance >= 0 or len(batch) < PARTS:
        raise BadInput(
            f"the rate needs a distance of at least 0 and {PARTS} sentences, not {distance} and {len(batch)}"
        )
    bounds = [len(batch) * part // PARTS for part in range(PARTS + 1)]
    gradients = []
    for start, stop in pairwise(bounds):
        part = batch.part(start, stop)
        gradients.append(fisher_trace_gradient(model, objective, part, seed=seed, first_sentence=start))
        progress("gradient of the trace", stop, len(batch))

    def multiply(vector: Tensor) -> Tensor:
        return fisher_vector_product(model, objective, batch, vector)

    left = [damped(multiply, gradient, distance, products) for gradient in gradients]
    pairs = torch.stack(gradients).double() @ torch.stack(left).double().T
    return _mean_of_pairs(pairs, len(batch))


def damped(
    multiply: Callable[[Float[Tensor, " P"]], Float[Tensor, " P"]],
    vector: Float[Tensor, " P"],
    distance: float,
    products: int,
) -> Float[Tensor, " P"]:
    """exp(-d A) v for a symmetric A ≥ 0 known by its products, in the Krylov space of so many (Lanczos 1950).

    Every new vector is made orthogonal to all before it, twice. Exact once the products are as many as A has
    eigenvalues that v has a part in; eigenvalues below 0, which are rounding, count as 0. Memory: a vector a
    product.

    >>> a = torch.diag(torch.tensor([0.0, 1.0, 2.0], dtype=torch.float64))
    >>> damped(a.mv, torch.ones(3, dtype=torch.float64), 1.0, products=3)
    tensor([1.0000, 0.3679, 0.1353], dtype=torch.float64)
    """
    length = float(vector.norm())
    if length == 0:
        return vector
    basis = (vector / length)[None]
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        image = multiply(basis[-1])
        diagonal.append(float(image @ basis[-1]))
        for _ in range(2):
            image = image - basis.T @ (basis @ image)
        left = float(image.norm())
        if len(diagonal) == products or left <= 1e-10 * max(diagonal):
            break
        beside.append(left)
        basis = torch.cat([basis, (image / left)[None]])
    tridiagonal = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    if beside:
        off = torch.diag(torch.tensor(beside, dtype=torch.float64), 1)
        tridiagonal = tridiagonal + off + off.T
    values, vectors = torch.linalg.eigh(tridiagonal)
    weights = vectors @ ((-distance * values.clamp(min=0)).exp() * vectors[0])
    result: Tensor = length * (weights.to(basis) @ basis)
    return result


def _mean_of_pairs(pairs: Float[Tensor, "K K"], sentences: int) -> Estimate:
    """The mean of all pairs of different parts, and its jackknife error over parts."""
    parts = len(pairs)
    apart = pairs - torch.diag(pairs.diagonal())
    total = float(apart.sum())
    value = total / (parts * (parts - 1))
    own = apart.sum(dim=0) + apart.sum(dim=1)
    without = (total - own) / ((parts - 1) * (parts - 2))
    error = float(((parts - 1) / parts * (without - without.mean()).square().sum()).sqrt())
    return Estimate(value, error, sentences)
