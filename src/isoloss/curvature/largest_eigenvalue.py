"""The largest eigenvalue of a symmetric matrix that is known only by its products (Lanczos 1950)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class EigenPair:
    """`residual` is ||A v - value v|| for the unit vector v: an eigenvalue lies within it of `value`."""

    value: float
    vector: Float[Tensor, " P"]
    residual: float
    products: int


def largest_eigenvalue(
    multiply: Callable[[Float[Tensor, " P"]], Float[Tensor, " P"]],
    start: Float[Tensor, " P"],
    *,
    tolerance: float,
    most_products: int,
    basis: int,
    report: Callable[[int, float, float], None],
) -> EigenPair:
    """The algebraically largest eigenvalue of A and its vector, until residual <= tolerance |value|.

    Lanczos with the whole basis kept and every new vector made orthogonal to it twice, so that no copies
    of found eigenvalues appear. Where the basis is full, at `basis` vectors (at least 3), it starts anew
    from the best vector and the one before it, the locally optimal restart (Knyazev 2001). Memory: 2
    `basis` vectors in `start`'s precision. `report` is told the number of products so far, the value and
    the residual after each.

    >>> a = torch.diag(torch.tensor([1.0, 5.0, -9.0, 2.0], dtype=torch.float64))
    >>> wanted = dict(tolerance=1e-9, most_products=20, basis=10, report=lambda *told: None)
    >>> pair = largest_eigenvalue(a.mv, torch.ones(4).double(), **wanted)
    >>> round(pair.value, 6), pair.products
    (5.0, 4)
    """
    size = max(3, basis)
    vectors, images = start.new_zeros(size, len(start)), start.new_zeros(size, len(start))
    projected = start.new_zeros(size, size)
    new, before, held = start / start.norm(), start.new_ones(1), 0
    for products in range(1, most_products + 1):
        vectors[held], images[held] = new, multiply(new)
        held += 1
        projected[held - 1, :held] = projected[:held, held - 1] = vectors[:held] @ images[held - 1]
        values, coordinates = torch.linalg.eigh(projected[:held, :held])
        value, best = float(values[-1]), coordinates[:, -1]
        vector = best @ vectors[:held]
        rest = best @ images[:held] - value * vector
        residual = float(rest.norm())
        report(products, value, residual)
        if residual <= tolerance * abs(value) or products == most_products:
            break
        if held == size:
            padded = torch.nn.functional.pad(before, (0, held - len(before)))
            turn = torch.linalg.qr(torch.stack([best, padded], dim=1)).Q
            held = 2
            vectors[:held], images[:held] = turn.T @ vectors, turn.T @ images
            projected[:held, :held] = turn.T @ projected @ turn
            best = turn.T @ best
        for _ in range(2):
            rest = rest - vectors[:held].T @ (vectors[:held] @ rest)
        if float(rest.norm()) <= 1e-14 * max(abs(value), 1e-300):  # the basis spans an invariant subspace
            break
        new, before = rest / rest.norm(), best
    return EigenPair(value, vector / vector.norm(), residual, products)
