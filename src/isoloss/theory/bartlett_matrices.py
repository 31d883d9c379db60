"""The three matrices of Lemma 3.2, dense: gradient covariance, Hessian and Fisher information."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, jacrev

from isoloss.theory.context_laws import ContextLaws
from isoloss.theory.softmax_model import SoftmaxModel, scores


@dataclass(frozen=True)
class BartlettMatrices:
    """Σ, ∇²L and F at one point, and how far that point is from the law (nats).

    Off the law, δ = f - law, both gaps are first order in δ and so in √KL (KL = ½ Σ w δ² / law + O(δ³)):
    Σ - F = -E_c Σ_y δ_y s_y s_yᵀ - ∇L ∇Lᵀ, s the scores, and ∇²L - F = E_c Σ_k δ_k ∇²z_k, z the logits, which
    is zero everywhere for logits that are linear in the parameters. Pinsker's inequality makes √KL a bound
    on both, up to a constant.
    """

    covariance: Float[Tensor, "P P"]
    hessian: Float[Tensor, "P P"]
    fisher: Float[Tensor, "P P"]
    kl: float

    @property
    def covariance_gap(self) -> float:
        """||Σ - F|| / ||F||, Frobenius norms."""
        return float((self.covariance - self.fisher).norm() / self.fisher.norm())

    @property
    def hessian_gap(self) -> float:
        """||∇²L - F|| / ||F||, Frobenius norms."""
        return float((self.hessian - self.fisher).norm() / self.fisher.norm())

    @property
    def lemma_gap(self) -> float:
        """||Σ - ∇²L|| / ||∇²L||, Frobenius norms: what Lemma 3.2 says is zero on Γ."""
        return float((self.covariance - self.hessian).norm() / self.hessian.norm())

    @property
    def largest_gap(self) -> float:
        """The largest entry of |Σ - ∇²L| over the largest of |∇²L|."""
        return float((self.covariance - self.hessian).abs().max() / self.hessian.abs().max())


def bartlett_matrices(
    model: SoftmaxModel, laws: ContextLaws, parameters: Float[Tensor, " P"]
) -> BartlettMatrices:
    """Expectations over all contexts and words; Σ and F from the scores, ∇²L by differentiating L twice.

    Memory: 3 P² + 2 C V P numbers, and P backward passes at once for the Hessian.

    >>> from isoloss.theory.softmax_model import Coin
    >>> fair = ContextLaws(torch.ones(1).double(), torch.full((1, 2), 0.5).double())
    >>> at_law = bartlett_matrices(Coin(), fair, torch.tensor([2.0, 0.0]).double())
    >>> at_law.hessian.tolist(), at_law.covariance.tolist()
    ([[0.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]])
    """

    def loss(at: Tensor) -> Tensor:
        return -(laws.joint * model.logits(at).log_softmax(dim=1)).sum()

    logits = model.logits(parameters)
    rows = scores(model, parameters).flatten(0, 1)
    of_law, of_model = laws.joint.flatten(), (laws.weight[:, None] * logits.softmax(dim=1)).flatten()
    mean = of_law @ rows
    covariance = (rows.T * of_law) @ rows - torch.outer(mean, mean)
    hessian: Tensor = jacrev(grad(loss))(parameters)
    return BartlettMatrices(covariance, hessian, (rows.T * of_model) @ rows, float(laws.kl(logits)))
