"""Sharpness: the largest eigenvalue of the Hessian, and the learning rate that it bounds."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.curvature.derivatives import MeasuredParameters, sign_probe, unflattened
from isoloss.curvature.loss import LossHessian, flattened
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation import evaluation_mode
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate

TASK = "top eigenvalue"
BASIS_BYTES = 1 << 30
"""Default budget for the vectors that the eigenvalue is sought with: 1 GiB."""


@dataclass(frozen=True)
class TopEigenvalue:
    """λ = v·Hv for the unit vector v found, in total and by group; in nats per squared parameter.

    `groups` holds each group's part, v_g·(Hv)_g, which add up to the total. The standard error is that of
    v·H_b v over blocks of sentences with v held fixed: to first order, how much λ would change with another
    sample of sentences. It does not account for the upward bias of λ on few sentences, to which v is fitted,
    nor for the numerical error, which is bounded by `residual` = ||Hv - λv||: some eigenvalue lies within
    that distance of λ. `converged` says whether the residual reached the tolerance, and `products` how many
    Hessian-vector products with the whole set it took.
    """

    estimate: Estimate
    groups: dict[str, Estimate]
    residual: float
    converged: bool
    products: int
    sentences: int
    parameters: MeasuredParameters


def hessian_top_eigenvalue(
    model: nn.Module,
    batches: Iterable[Batch],
    objective: Objective,
    *,
    seed: int = 0,
    tolerance: float = 1e-3,
    most_products: int = 200,
    basis_bytes: int = BASIS_BYTES,
    progress: Progress = silent,
) -> TopEigenvalue:
    """The algebraically largest eigenvalue of ∇²L, for the sentence-averaged loss on all sentences.

    Runs Lanczos from a random ±1 vector drawn with `seed`, with products computed by double backward passes
    and summed in float64, until ||Hv - λv|| <= `tolerance` |λ| or for at most `most_products` products, each
    a Hessian-vector product on the whole set. Memory: at least 14 float64 vectors of the parameters' size,
    and as many as fit into `basis_bytes`, beside the double backward pass of `AT_ONCE` sentences.

    The model is left as found. Raises BadInput for a tolerance not between 0 and 1, for fewer than two
    sentences, when no parameter needs a gradient, and where a logit is not finite.
    """
    if not 0 < tolerance < 1:
        raise BadInput(f"the eigenvalue's relative tolerance must be above 0 and below 1, not {tolerance}")
    measured = MeasuredParameters.of(model)
    batches = list(batches)
    blocks = LossHessian.in_blocks(model, batches, objective)
    hessian = LossHessian.at_once(model, batches, objective)
    start = flattened(sign_probe(hessian.parameters, f"{seed} start"))

    def report(products: int, value: float, residual: float) -> None:
        # A residual falls geometrically, so its logarithm measures progress.
        share = math.log(max(residual, 1e-300) / max(abs(value), 1e-300)) / math.log(tolerance)
        done = most_products * min(max(share, products / most_products, 0.0), 0.99)
        progress(TASK, done, most_products, f"{value:.5g}, residual {residual:.2g}")

    with evaluation_mode(model):
        pair = largest_eigenvalue(
            hessian.multiply,
            start,
            tolerance=tolerance,
            most_products=most_products,
            basis=min(64, basis_bytes // (16 * len(start))),
            report=report,
        )
        curvature = blocks.curvature(unflattened(pair.vector, hessian.parameters))
    progress(TASK, most_products, most_products)
    return TopEigenvalue(
        curvature.whole,
        curvature.groups,
        pair.residual,
        pair.residual <= tolerance * abs(pair.value),
        pair.products,
        blocks.sentences,
        measured,
    )


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
    """The algebraically largest eigenvalue of A and its eigenvector, to residual <= tolerance |value|.

    Lanczos with the full basis kept and every new vector orthogonalised against it twice, so that no spurious
    copies of converged eigenvalues appear. When the basis reaches `basis` vectors (at least 3), it restarts
    from the best vector and the one before it, the locally optimal restart (Knyazev 2001). Memory: 2 `basis`
    vectors in `start`'s precision. After each product, `report` receives the number of products so far, the
    value and the residual.
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


def edge_of_stability_rate(
    model: nn.Module,
    batches: Iterable[Batch],
    objective: Objective,
    *,
    momentum: float = 0.0,
    progress: Progress = silent,
) -> float:
    """2 (1 + μ) / λ_max, above which gradient descent with momentum μ diverges on the loss's quadratic model.

    λ_max belongs to the Hessian of the loss on the batches (`hessian_top_eigenvalue`): use at least as many
    sentences as a training step does. The bound holds at the current weights only: λ_max changes during
    training (Cohen et al. 2021, "edge of stability").

    Raises BadInput if the largest eigenvalue is not positive, so that no rate is bounded, or is not found.

    >>> import torch
    >>> class Logistic(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.score = nn.Parameter(torch.zeros(2))
    ...     def logits(self, model, batch):
    ...         return model.score.expand(len(batch), 2)
    >>> ids = torch.zeros(2, 1, dtype=torch.long)
    >>> coins = Batch(ids, ids == 0, torch.arange(2), ids[:, 0], ids[:, 0])
    >>> model = Logistic()
    >>> round(edge_of_stability_rate(model, [coins], model), 5)  # the Hessian is p (1 - p) [[1, -1], [-1, 1]]
    4.0
    """
    if not 0 <= momentum < 1:
        raise BadInput(f"momentum must be at least 0 and below 1, not {momentum}")
    top = hessian_top_eigenvalue(model, batches, objective, progress=progress)
    largest = top.estimate.value
    if not largest > 0:
        raise BadInput(
            f"the Hessian's largest eigenvalue is {largest:.6g}, which bounds no learning rate; measure a "
            "model that has been trained for some steps"
        )
    if not top.converged:
        raise BadInput(
            f"the Hessian's largest eigenvalue was not found in {top.products} products: {largest:.6g} with "
            f"a residual of {top.residual:.2g}; measure on fewer sentences or a later checkpoint"
        )
    return 2 * (1 + momentum) / largest
