"""How fast SGD's drift lowers the trace, by Theorem 3.3, from derivatives at a single point."""

from collections.abc import Callable
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from isoloss.curvature.derivatives import hessian_vector_product, trainable_parameters, unflattened
from isoloss.curvature.loss import sentence_weights
from isoloss.curvature.per_sentence.traces import sign_bits, signs_of
from isoloss.curvature.spectrum import lanczos
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, Objective, refuse_non_finite
from isoloss.objectives.evaluation import device_of, evaluation_mode
from isoloss.progress import Progress, silent
from isoloss.results.estimate import Estimate, jackknifed

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

    In the valley of the loss, SGD's mean path obeys dθ/dτ = -∇Tr ∇²L - (4B/η) ∇L, with τ = η²k / 4B. Along a
    direction of curvature λ, the second term cancels the first once ηkλ is large, and motion along it no
    longer lowers Tr: the remaining velocity is -g exp(-ηkλ). If all curvatures are either 0 or large, this is
    the flow of Theorem 3.3, -||∇_Γ Tr||²; those of a trained transformer decrease to 0 without a gap, so
    there is no Γ to project onto.

    F is computed on all of the batch's sentences, and g independently on each of `PARTS` parts; the value is
    the mean over pairs of parts, with the jackknife standard error over parts, which `n` counts. exp(-d F) g
    is computed by `damped`. Raises BadInput for a distance below 0, fewer sentences than parts, no product,
    or a logit that is not finite.
    """
    if not distance >= 0 or len(batch) < PARTS:
        raise BadInput(
            f"the rate needs a distance of at least 0 and {PARTS} sentences, not {distance} and {len(batch)}"
        )
    if products < 1:
        raise BadInput(f"the rate needs at least 1 product with the Fisher information, not {products}")
    batch = batch.to(device_of(model))
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
    return _mean_of_pairs(pairs)


def damped(
    multiply: Callable[[Float[Tensor, " P"]], Float[Tensor, " P"]],
    vector: Float[Tensor, " P"],
    distance: float,
    products: int,
) -> Float[Tensor, " P"]:
    """exp(-d A) v for symmetric A ≥ 0, given by its matrix-vector products, in a Krylov space (`lanczos`).

    Exact once there are as many products as distinct eigenvalues of A in which v has a component; negative
    eigenvalues are due to rounding and count as 0. Memory: one vector per product.
    """
    length = float(vector.norm())
    if length == 0:
        return vector
    values, vectors, basis = lanczos(multiply, vector, products)
    weights = vectors @ ((-distance * values.clamp(min=0)).exp() * vectors[0])
    result: Tensor = length * (weights.to(basis) @ basis)
    return result


def _mean_of_pairs(pairs: Float[Tensor, "K K"]) -> Estimate:
    """The mean over all pairs of different parts, with its jackknife error over parts."""
    parts = len(pairs)
    apart = pairs - torch.diag(pairs.diagonal())
    total = float(apart.sum())
    value = total / (parts * (parts - 1))
    with_each = apart.sum(dim=0) + apart.sum(dim=1)
    without = (total - with_each) / ((parts - 1) * (parts - 2))
    return jackknifed(value, without)


def fisher_trace_gradient(
    model: nn.Module, objective: Objective, batch: Batch, *, seed: int = 0, first_sentence: int = 0
) -> Float[Tensor, " P"]:
    """∇_θ Tr F with Tr F as in `fisher_trace`: the mean over the batch's sentences, parameters concatenated.

    Unbiased: the mean over signs of `directional_trace_gradient`. Sentence i's signs come from `seed` and
    `first_sentence` + i. The model's attention must be twice differentiable: "eager", or torch's plain
    kernel, which is requested here. Takes one sentence at a time; the model is left as found. Raises BadInput
    where a logit is not finite, naming the sentence.
    """
    total = torch.zeros(())
    for number in range(len(batch)):
        sentence = batch.part(number, number + 1)
        with evaluation_mode(model), torch.no_grad():
            logits = objective.logits(model, sentence)
        refuse_non_finite(logits, sentence, first_sentence + number)
        place, predictions = torch.tensor([first_sentence + number]), torch.tensor([len(sentence.rows)])
        bits = sign_bits(place, predictions, logits.shape[1], seed)
        of_sentence = directional_trace_gradient(model, objective, sentence, bits)
        total = total.to(of_sentence.device) + of_sentence
    return total / len(batch)


def directional_trace_gradient(
    model: nn.Module, objective: Objective, sentence: Batch, bits: Tensor
) -> Float[Tensor, " P"]:
    """∇_θ (||Σ_v δ_v ∇_θ z_v||² / M) for one sentence of M predictions with logits z and signs from `bits`.

    The directions δ = √p ∘ s - p (√p · s) (`fisher_directions`) are held constant in the inner derivative and
    depend on θ in the outer one, so that the mean over signs s is the gradient of the exact trace.
    """
    leaves = list(trainable_parameters(model).values())
    with evaluation_mode(model), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        logits = objective.logits(model, sentence)
        signs = signs_of(bits.to(logits.device), logits.shape[1], logits.dtype)
        # Half the logarithm: a root has no derivative where a probability underflows to 0.
        root = (0.5 * logits.log_softmax(dim=1)).exp() * signs
        directions = root - logits.softmax(dim=1) * root.sum(dim=1, keepdim=True)
        scores = torch.autograd.grad(logits, leaves, directions, create_graph=True, materialize_grads=True)
        trace = torch.stack([score.square().sum() for score in scores]).sum() / len(logits)
        gradients = torch.autograd.grad(trace, leaves, materialize_grads=True)
    return torch.cat([gradient.flatten() for gradient in gradients])


def fisher_vector_product(
    model: nn.Module, objective: Objective, batch: Batch, vector: Float[Tensor, " P"]
) -> Float[Tensor, " P"]:
    """F v, where F is the sentence-averaged mean over predictions of E_{y ~ f} ∇ log f_y ∇ log f_yᵀ.

    F is the Hessian of KL(f_θ₀ || f_θ) at θ = θ₀, where the residual vanishes, and with it the term in the
    logits' second derivative. Memory: about four times that of one backward pass over the batch.
    """
    parameters = trainable_parameters(model)

    def divergence() -> Tensor:
        log_probabilities = objective.logits(model, batch).log_softmax(dim=1)
        if len(batch.rows) == len(batch):  # one prediction per sentence: the two means are the same
            return -(log_probabilities.detach().exp() * log_probabilities).sum() / len(log_probabilities)
        entropies = -(log_probabilities.detach().exp() * log_probabilities).sum(dim=1)
        return sentence_weights(batch).to(entropies) @ entropies

    with evaluation_mode(model):
        product = hessian_vector_product(divergence, parameters, unflattened(vector, parameters))
    return torch.cat([product[name].flatten() for name in parameters])
