"""The smoothed loss's rule against its definition, and its penalty against the dense Hessian's trace."""

import copy

import torch
from rule_cases import batch_of, tiny, training_of, weights_of
from torch.func import functional_call, grad, hessian, vmap

from isoloss.objectives.batch import Batch
from isoloss.pretraining.flatness_regularised import FlatnessRegularised
from isoloss.pretraining.seeds import caller_randomness_kept
from isoloss.pretraining.sgd import SGD

CPU = torch.device("cpu")


def test_the_step_is_the_mean_of_two_displaced_gradients() -> None:
    model = tiny()
    oracle, start = copy.deepcopy(model), weights_of(model)
    sgd = SGD(learning_rate=0.1, warm_up_share=0.0)
    rule = FlatnessRegularised(noise=0.05, optimiser=sgd).build(training_of(model))
    batch = batch_of(1, batch_size=7)
    with caller_randomness_kept(CPU):
        torch.manual_seed(3)
        loss = rule.step(batch, 1)
        torch.manual_seed(3)
        noise = [torch.randn_like(weight) for weight in start]

    parameters, loss_of = list(oracle.parameters()), training_of(oracle).loss
    update, smoothed = [torch.zeros_like(weight) for weight in start], 0.0
    for part, share, side in ((batch.part(0, 3), 3 / 7, 0.05), (batch.part(3, 7), 4 / 7, -0.05)):
        with torch.no_grad():
            for weight, origin, direction in zip(parameters, start, noise, strict=True):
                weight.copy_(origin + side * direction)
        part_loss = loss_of(part)
        smoothed += share * part_loss.item()
        for total, gradient in zip(update, torch.autograd.grad(part_loss, parameters), strict=True):
            total += share * gradient
    torch.testing.assert_close(loss.item(), smoothed, rtol=1e-12, atol=0)
    for weight, origin, gradient in zip(weights_of(model), start, update, strict=True):
        torch.testing.assert_close(weight, origin - 0.1 * gradient, rtol=1e-10, atol=1e-12)


class Bilinear(torch.nn.Module):
    """Five scores of a batch's tokens, curved in eight weights; small enough for dense third derivatives."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(8, generator=generator, dtype=torch.float64))

    def logits(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        hidden = torch.tanh(batch.input_ids.double().mean(dim=1)[:, None] * model.weight[:3])
        return hidden @ torch.outer(model.weight[:3], model.weight[3:])


def test_the_mean_gradient_is_that_of_the_loss_and_half_the_hessians_trace() -> None:
    """Over draws of ε, (g - ∇L) / (σ² / 2) has the mean ∇ Tr ∇²L, up to O(σ²) and within its error."""
    model, batch, noise = Bilinear(), batch_of(1, batch_size=16), 0.02

    def loss(weight: torch.Tensor) -> torch.Tensor:
        logits = functional_call(_Scores(model), {"model.weight": weight}, (batch,))
        return torch.nn.functional.cross_entropy(logits, batch.targets)

    weight = model.weight.detach()
    penalty = grad(lambda w: hessian(loss)(w).trace())(weight)
    directions = torch.randn(20_000, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    # What the rule does to equal halves, for many draws at once.
    gradient = vmap(grad(loss))
    both = (gradient(weight + noise * directions) + gradient(weight - noise * directions)) / 2
    values = (both - grad(loss)(weight)) / (noise**2 / 2)
    error = values.std(dim=0) / len(values) ** 0.5
    assert (error < 0.1 * penalty.abs().max()).all()
    assert ((values.mean(dim=0) - penalty).abs() < 4 * error + 0.01 * penalty.abs().max()).all()


class _Scores(torch.nn.Module):
    def __init__(self, model: Bilinear) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> torch.Tensor:
        return self.model.logits(self.model, batch)
