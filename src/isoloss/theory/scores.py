"""The score vectors ∇_θ -log f(context)_y of every context and word, from which all of Section 3 follows."""

from jaxtyping import Float
from torch import Tensor
from torch.func import jacrev

from isoloss.theory.context_laws import ContextLaws
from isoloss.theory.softmax_model import SoftmaxModel


def scores(model: SoftmaxModel, parameters: Float[Tensor, " P"]) -> Float[Tensor, "C V P"]:
    """∇_θ [-log f(context c)_y] = Σ_k f_k ∇z_k - ∇z_y, z the logits. Memory: C V P numbers, twice."""
    jacobian: Tensor = jacrev(model.logits)(parameters)
    probabilities = model.logits(parameters).softmax(dim=1)
    return (probabilities[..., None] * jacobian).sum(dim=1, keepdim=True) - jacobian


def trace(model: SoftmaxModel, laws: ContextLaws, parameters: Float[Tensor, " P"]) -> Float[Tensor, ""]:
    """Tr F = E_c E_{y ~ f} ||score||² (paper B.1), which on the manifold of minimisers is Tr ∇²L (Lemma 3.2).

    Differentiable in the parameters. Both traces have one gradient along the manifold, where they agree.
    """
    probabilities = laws.weight[:, None] * model.logits(parameters).softmax(dim=1)
    return (probabilities * scores(model, parameters).square().sum(dim=2)).sum()


def whitened_scores(
    model: SoftmaxModel, laws: ContextLaws, parameters: Float[Tensor, " P"]
) -> Float[Tensor, "CV P"]:
    """Rows √(w_c f_y) score_cy, whose Gram matrix AᵀA is the Fisher information."""
    probabilities = laws.weight[:, None] * model.logits(parameters).softmax(dim=1)
    return (probabilities.sqrt()[..., None] * scores(model, parameters)).flatten(0, 1)
