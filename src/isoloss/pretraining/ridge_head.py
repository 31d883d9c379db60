"""A linear head in closed form, differentiable through its fit (paper A.5)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

SMALLEST_PENALTY = 1e-12
"""Keeps the fit defined where all features are equal."""


def ridge_head_loss(
    train: Float[Tensor, "n D"],
    train_labels: Int[Tensor, " n"],
    validation: Float[Tensor, "m D"],
    validation_labels: Int[Tensor, " m"],
    classes: int,
    ridge: float,
) -> Float[Tensor, ""]:
    """Mean squared validation loss (1/m) Σ ||W h + b - onehot(y)||² of the head fitted on the training part.

    W, b minimise Σ ||W h + b - onehot(y)||² + α ||W||², α = `ridge` · ||H||²_F / n with H the centred
    features: the bias is free, and scaling all features changes nothing. Solved in the sentences' space,
    W = Yᵀ (H Hᵀ + α I)⁻¹ H, by Cholesky in float64; gradients flow through it to both sets of features. A
    head predicts at most ||h|| / rms(H) · √(n / 4 ridge) away from the mean. Memory: n² + m n numbers.

    >>> x = torch.eye(2).repeat(50, 1)
    >>> y = torch.tensor([0, 1]).repeat(50)
    >>> round(float(ridge_head_loss(x, y, x, y, classes=2, ridge=1e-6)), 6)
    0.0
    """
    truth = one_hot(train_labels, classes).to(train.device, torch.float64)
    wanted = one_hot(validation_labels, classes).to(train.device, torch.float64)
    centre, mean = train.double().mean(dim=0), truth.mean(dim=0)
    centred = train.double() - centre
    gram = centred @ centred.T
    penalty = ridge * gram.trace() / len(train) + SMALLEST_PENALTY
    factor = torch.linalg.cholesky(gram + penalty * torch.eye(len(train)).to(gram))
    coefficients = torch.cholesky_solve(truth - mean, factor)
    predicted = (validation.double() - centre) @ centred.T @ coefficients + mean
    return (predicted - wanted).square().sum(dim=1).mean()
