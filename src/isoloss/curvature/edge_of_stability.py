"""The learning rate at which gradient descent stops being stable: measured, not guessed."""

from collections.abc import Sequence

from torch import nn

from isoloss.curvature.hessian_top_eigenvalue import hessian_top_eigenvalue
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective
from isoloss.progress import Progress, silent


def edge_of_stability_rate(
    model: nn.Module,
    batches: Sequence[Batch],
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
