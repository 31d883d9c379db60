"""The learning rate at which gradient descent stops being stable: measured, not guessed."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective, sentence_averaged_loss
from isoloss.objectives.evaluation_mode import evaluation_mode

TopEigenvalue = Callable[[nn.Module, Objective, Batch], float]
"""The largest eigenvalue of the Hessian of the sentence-averaged loss on a batch."""


def edge_of_stability_rate(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    *,
    momentum: float = 0.0,
    top_eigenvalue: TopEigenvalue | None = None,
) -> float:
    """2 (1 + μ) / λ_max, above which gradient descent with momentum μ diverges on the loss's parabola.

    λ_max is that of the Hessian of the loss on the batch, dropout off: take a batch of the size that will
    be trained on, or larger. Stability of each step from here on is what is told; λ_max moves as training
    does (Cohen et al. 2021, "edge of stability"). `top_eigenvalue` is `lanczos_top_eigenvalue` by default.

    Raises BadInput where the largest eigenvalue is not positive, which bounds no rate.

    >>> from isoloss.objectives.batch import Batch
    >>> class Logistic(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.score = nn.Parameter(torch.zeros(2))
    ...     def logits(self, model, batch):
    ...         return model.score.expand(1, 2)
    >>> ids = torch.zeros(1, 1, dtype=torch.long)
    >>> coin = Batch(ids, ids == 0, ids[0], ids[0], ids[0])
    >>> model = Logistic()
    >>> round(edge_of_stability_rate(model, model, coin), 5)  # the Hessian is p (1 - p) [[1, -1], [-1, 1]]
    4.0
    """
    if not 0 <= momentum < 1:
        raise BadInput(f"momentum must be at least 0 and below 1, not {momentum}")
    largest = (top_eigenvalue or lanczos_top_eigenvalue)(model, objective, batch)
    if not largest > 0:
        raise BadInput(
            f"the Hessian's largest eigenvalue is {largest}, which bounds no learning rate; measure a model "
            "that has been trained for some steps"
        )
    return 2 * (1 + momentum) / largest


def lanczos_top_eigenvalue(
    model: nn.Module,
    objective: Objective,
    batch: Batch,
    *,
    seed: int = 0,
    tolerance: float = 1e-3,
    most_steps: int = 200,
) -> float:
    """λ_max of the Hessian of the sentence-averaged loss, by Lanczos on Hessian-vector products.

    Full reorthogonalisation; stops when the residual bounds the error by `tolerance` of the value. A product
    is a backward pass through the gradient, which needs plain attention: torch's math kernel is chosen here.
    Dropout is off, the model is left as found. Memory: a vector of all parameters a step, and the graph of
    one gradient. Raises BadInput when it does not converge in `most_steps` steps.
    """
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    size = sum(parameter.numel() for parameter in parameters)
    start = torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    basis = [(start / start.norm()).to(parameters[0].device)]
    diagonal: list[Tensor] = []
    beside: list[Tensor] = []
    with evaluation_mode(model), sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
        loss = sentence_averaged_loss(objective.logits(model, batch), batch)
        gradients = torch.autograd.grad(loss, parameters, create_graph=True, materialize_grads=True)
        for _ in range(min(most_steps, size)):
            product = _hessian_product(gradients, parameters, basis[-1])
            diagonal.append(basis[-1] @ product)
            for _again in range(2):  # once is not enough in floating point
                product = product - sum(((v @ product) * v for v in basis), torch.zeros_like(product))
            residual = product.norm()
            largest, last = _ritz(diagonal, beside)
            if float(residual * last) <= tolerance * abs(largest) or len(basis) == size:
                return largest
            beside.append(residual)
            basis.append(product / residual)
    raise BadInput(
        f"the Hessian's largest eigenvalue was not found to {tolerance:g} of itself in {most_steps} steps; "
        "allow more steps or a larger tolerance"
    )


def _hessian_product(
    gradients: tuple[Tensor, ...], parameters: list[nn.Parameter], vector: Float[Tensor, " P"]
) -> Float[Tensor, " P"]:
    """∇²L v in float64, from a gradient that kept its graph."""
    pieces = torch.split(vector, [parameter.numel() for parameter in parameters])
    shaped = [piece.view_as(p).to(p.dtype) for piece, p in zip(pieces, parameters, strict=True)]
    products = torch.autograd.grad(
        gradients, parameters, grad_outputs=shaped, retain_graph=True, materialize_grads=True
    )
    return torch.cat([product.flatten().double() for product in products])


def _ritz(diagonal: list[Tensor], beside: list[Tensor]) -> tuple[float, float]:
    """The tridiagonal matrix's largest eigenvalue, and the size of its vector's last entry."""
    matrix = torch.stack(diagonal).diag()
    for row, value in enumerate(beside):
        matrix[row, row + 1] = matrix[row + 1, row] = value
    values, vectors = torch.linalg.eigh(matrix)
    return float(values[-1]), float(vectors[-1, -1].abs())
