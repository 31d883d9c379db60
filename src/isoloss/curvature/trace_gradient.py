"""The gradient of the Fisher information's trace, and the Fisher information's products with a vector."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from isoloss.curvature.hessian_vector_products import hessian_vector_product
from isoloss.curvature.label_draws import sign_bits, signs_of
from isoloss.curvature.measured_parameters import trainable_parameters
from isoloss.objectives.batch import Batch, Objective
from isoloss.objectives.evaluation_mode import evaluation_mode


def fisher_trace_gradient(
    model: nn.Module, objective: Objective, batch: Batch, *, seed: int = 0, first_sentence: int = 0
) -> Float[Tensor, " P"]:
    """∇_θ Tr F, Tr F as in `fisher_trace`: the mean over the batch's sentences, the parameters end to end.

    Unbiased: the mean over signs of `directional_trace_gradient`. Sentence i's signs come from `seed` and
    `first_sentence` + i. The model's attention must have a second derivative: "eager", or torch's plain
    kernel, which is asked for. Takes one sentence at a time; the model is left as found.

    >>> from transformers import BertConfig, BertForMaskedLM
    >>> from isoloss.objectives.pretrained import PretrainedMasked
    >>> size = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    >>> model = BertForMaskedLM(BertConfig(vocab_size=9, **size))
    >>> ids = torch.tensor([[3, 4, 2, 6], [5, 2, 7, 8]])
    >>> inputs = {"input_ids": ids, "labels": torch.tensor([[5, 6, 7, 8]] * 2).where(ids == 2, -100)}
    >>> gradient = fisher_trace_gradient(model, PretrainedMasked(), PretrainedMasked().batch(inputs))
    >>> gradient.shape[0] == sum(parameter.numel() for parameter in model.parameters())
    True
    """
    total = torch.zeros(())
    for number in range(len(batch)):
        own = batch.part(number, number + 1)
        with evaluation_mode(model), torch.no_grad():
            words = objective.logits(model, own).shape[1]
        bits = sign_bits(torch.tensor([first_sentence + number]), torch.tensor([len(own.rows)]), words, seed)
        total = total.to(own.rows.device) + directional_trace_gradient(model, objective, own, bits)
    return total / len(batch)


def directional_trace_gradient(
    model: nn.Module, objective: Objective, sentence: Batch, bits: Tensor
) -> Float[Tensor, " P"]:
    """∇_θ (||Σ_v δ_v ∇_θ z_v||² / M) for one sentence of M predictions with logits z, signs given by `bits`.

    The directions δ = √p ∘ s - p (√p · s) (`fisher_directions`) are a constant in the inner derivative and a
    function of θ in the outer one: the mean over signs s is then the gradient of the exact trace.
    """
    leaves = list(trainable_parameters(model).values())
    with evaluation_mode(model), torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        logits = objective.logits(model, sentence)
        signs = signs_of(bits.to(logits.device), logits.shape[1], logits.dtype)
        root = logits.softmax(dim=1).sqrt() * signs
        directions = root - logits.softmax(dim=1) * root.sum(dim=1, keepdim=True)
        scores = torch.autograd.grad(logits, leaves, directions, create_graph=True, materialize_grads=True)
        trace = torch.stack([score.square().sum() for score in scores]).sum() / len(logits)
        gradients = torch.autograd.grad(trace, leaves, materialize_grads=True)
    return torch.cat([gradient.flatten() for gradient in gradients])


def fisher_vector_product(
    model: nn.Module, objective: Objective, batch: Batch, vector: Float[Tensor, " P"]
) -> Float[Tensor, " P"]:
    """F v, F the mean over the batch's predictions of E_{y ~ f} ∇ log f_y ∇ log f_yᵀ.

    F is the Hessian of KL(f_θ₀ || f_θ) at θ = θ₀, where the residual vanishes and the logits' own second
    derivative with it. Memory: about four times that of one backward pass over the batch.
    """
    parameters = trainable_parameters(model)
    pieces = torch.split(vector, [leaf.numel() for leaf in parameters.values()])
    along = {name: piece.view_as(parameters[name]) for name, piece in zip(parameters, pieces, strict=True)}

    def divergence() -> Tensor:
        log_law = objective.logits(model, batch).log_softmax(dim=1)
        return -(log_law.detach().exp() * log_law).sum() / len(log_law)

    with evaluation_mode(model):
        product = hessian_vector_product(divergence, parameters, along)
    return torch.cat([product[name].flatten() for name in parameters])
