"""Muon, and from the package pytorch-optimizer Lion, SOAP and Sophia."""

import importlib
import math
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, sentence_averaged_loss
from isoloss.pretraining.descent import (
    AdamW,
    Decay,
    Descent,
    GradientRule,
    check_moments,
    check_momentum,
    check_rate_and_decay,
    parameters_by_decay,
    plain_rule,
)
from isoloss.pretraining.update_rule import Training
from isoloss.results.store import ONLY_WHEN_CHANGED


def pytorch_optimizer() -> ModuleType:
    """The package, imported where one of its optimisers is wanted, since that takes a second."""
    return importlib.import_module("pytorch_optimizer")


@dataclass(frozen=True)
class Lion:
    """θ ← θ - η (sign(β1 m + (1 - β1) g) + w θ), then m ← β2 m + (1 - β2) g (Chen et al. 2023).

    The authors advise a learning rate 3 to 10 times lower than AdamW's and a weight decay higher by the same
    factor; weight decay as in `AdamW`, on matrices only. State: one number per parameter.
    """

    learning_rate: float = 1e-4
    warm_up_steps: int = 1000
    first_beta: float = 0.9
    second_beta: float = 0.99
    weight_decay: float = 0.1

    def __post_init__(self) -> None:
        check_rate_and_decay(self.learning_rate, self.weight_decay)
        check_moments(self.first_beta, self.second_beta, self.warm_up_steps)

    def descent(self, training: Training) -> Descent:
        optimiser = pytorch_optimizer().Lion(
            parameters_by_decay(training.model, self.weight_decay),
            lr=self.learning_rate,
            betas=(self.first_beta, self.second_beta),
        )
        return Descent([optimiser], self.warm_up_steps, training.steps)

    def build(self, training: Training) -> GradientRule:
        return plain_rule(training, self.descent(training))


@dataclass(frozen=True)
class SOAP:
    """Adam in the slowly turning eigenbasis of Shampoo's preconditioner (Vyas et al. 2024).

    The bases are updated every `basis_steps` steps; a dimension above 10,000 (a large vocabulary) keeps the
    identity. The first step only initialises the preconditioner and leaves the weights unchanged. The rate's
    `decay` as in `AdamW`; weight decay too, on matrices only. State: two numbers per parameter, and
    2 (a² + b²) for an a x b matrix.
    """

    learning_rate: float = 1e-3
    warm_up_steps: int = 1000
    first_beta: float = 0.95
    second_beta: float = 0.95
    weight_decay: float = 0.01
    basis_steps: int = 10
    decay: Decay = field(default="none", metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        check_rate_and_decay(self.learning_rate, self.weight_decay)
        check_moments(self.first_beta, self.second_beta, self.warm_up_steps)
        if self.basis_steps < 1:
            raise BadInput(
                f"SOAP's bases must be renewed every so many steps, at least 1, not {self.basis_steps}"
            )

    def descent(self, training: Training) -> Descent:
        optimiser = pytorch_optimizer().SOAP(
            parameters_by_decay(training.model, self.weight_decay),
            lr=self.learning_rate,
            betas=(self.first_beta, self.second_beta),
            precondition_frequency=self.basis_steps,
        )
        return Descent([optimiser], self.warm_up_steps, training.steps, self.decay)

    def build(self, training: Training) -> GradientRule:
        return plain_rule(training, self.descent(training))


@dataclass(frozen=True)
class Muon:
    """Hidden matrices move by about η · 0.2 √max(a, b) · U Vᵀ, for Nesterov momentum with the SVD U S Vᵀ.

    torch's own Muon (2.9 and newer), with five Newton-Schulz steps in bfloat16; the factor gives an a x b
    matrix updates of AdamW's size (Liu et al. 2025), so that learning rates are comparable. Embeddings, the
    output layer, biases and gains are updated by `rest`, whose warm-up and decay apply to all.
    """

    learning_rate: float = 1e-3
    momentum: float = 0.95
    weight_decay: float = 0.01
    rest: AdamW = field(default_factory=AdamW)

    def __post_init__(self) -> None:
        check_rate_and_decay(self.learning_rate, self.weight_decay)
        check_momentum(self.momentum)

    def descent(self, training: Training) -> Descent:
        """See `DescentSettings.descent`. Raises BadInput for a torch without Muon or no hidden matrix."""
        if not hasattr(torch.optim, "Muon"):
            raise BadInput(f"torch {torch.__version__} has no Muon; install torch 2.9 or newer")
        hidden = hidden_matrices(training.model)
        if not hidden:
            raise BadInput("the model has no hidden matrix for Muon to move; train it by AdamW")
        muon = torch.optim.Muon(
            hidden,
            lr=self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            adjust_lr_fn="match_rms_adamw",
        )
        moved = {id(matrix) for matrix in hidden}
        groups = parameters_by_decay(training.model, self.rest.weight_decay)
        for group in groups:
            group["params"] = [parameter for parameter in group["params"] if id(parameter) not in moved]
        optimisers = [muon, self.rest.optimiser(groups)]
        return Descent(optimisers, self.rest.warm_up_steps, training.steps, self.rest.decay)

    def build(self, training: Training) -> GradientRule:
        return plain_rule(training, self.descent(training))


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The trained matrices that are neither an embedding nor the output layer."""
    ends = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    output = model.get_output_embeddings() if isinstance(model, PreTrainedModel) else None
    outer = {id(parameter) for module in [*ends, output] if module for parameter in module.parameters()}
    return [p for p in model.parameters() if p.requires_grad and p.ndim == 2 and id(p) not in outer]


@dataclass(frozen=True)
class Sophia:
    """θ ← θ - η clip(m / max(γ h, ε), 1), where h is a running mean of Hessian-diagonal estimates.

    Sophia-G: every `estimate_steps` steps, labels are sampled from the model itself, and the square of the
    resulting gradient, summed over predictions, is an unbiased estimate of the Fisher's diagonal. (Sophia-H
    needs second derivatives instead, which fused attention lacks.) With several processes, each estimates on
    its own sentences, and the average is also unbiased. `clipping` is γ. Weight decay as in `AdamW`, on
    matrices only. State: three numbers per parameter.
    """

    learning_rate: float = 1e-3
    warm_up_steps: int = 1000
    first_beta: float = 0.96
    second_beta: float = 0.99
    clipping: float = 0.05
    weight_decay: float = 0.1
    estimate_steps: int = 10

    def __post_init__(self) -> None:
        check_rate_and_decay(self.learning_rate, self.weight_decay)
        check_moments(self.first_beta, self.second_beta, self.warm_up_steps)
        if not 0 < self.clipping < math.inf:
            raise BadInput(f"Sophia's clipping γ must be a positive number, not {self.clipping}")
        if self.estimate_steps < 1:
            raise BadInput(
                f"Sophia's Hessian must be estimated every so many steps, at least 1, not "
                f"{self.estimate_steps}"
            )

    def build(self, training: Training) -> "SophiaRule":
        training.refuse_micro_batches("Sophia")
        return SophiaRule(self, training)


class SophiaRule:
    """Sophia's `UpdateRule`."""

    def __init__(self, settings: Sophia, training: Training) -> None:
        self.estimate_steps = settings.estimate_steps
        self.training = training
        # The package clips m / h at p and multiplies by its rate: p = γ and η / γ make it the paper's.
        self.optimiser = pytorch_optimizer().SophiaH(
            parameters_by_decay(training.model, settings.clipping * settings.weight_decay),
            lr=settings.learning_rate / settings.clipping,
            betas=(settings.first_beta, settings.second_beta),
            p=settings.clipping,
            update_period=settings.estimate_steps,
        )
        self.descent = Descent([self.optimiser], settings.warm_up_steps, training.steps)

    def step(self, batch: Batch, step: int) -> Float[Tensor, ""]:
        share, weight = self.training.share(batch)
        logits = self.training.objective.logits(self.training.model, share)
        loss = weight * sentence_averaged_loss(logits, share)
        estimated = (step - 1) % self.estimate_steps == 0
        self.descent.clear()
        self.training.backward(loss, keep_graph=estimated)
        self.descent.set_rates(step)
        self.optimiser.step(hessian=self._fisher_diagonal(logits, share, weight) if estimated else None)
        return self.training.averaged(loss)

    def _fisher_diagonal(self, logits: Float[Tensor, "m v"], share: Batch, weight: float) -> list[Tensor]:
        parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        diagonal = [weight * square for square in fisher_diagonal(logits, share, parameters)]
        self.training.processes.average(diagonal)
        return diagonal

    def readings(self) -> dict[str, float]:
        """See `UpdateRule.readings`: nothing beside the loss."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        return self.descent.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.descent.load_state_dict(state)


def fisher_diagonal(
    logits: Float[Tensor, "m v"], batch: Batch, parameters: list[nn.Parameter]
) -> list[Tensor]:
    """An unbiased sample of the Fisher's diagonal for the sentence-averaged loss, by one backward pass.

    It is (∇ Σ_j √w_j log f_j(y_j))², with y_j drawn from f_j by the global generator and w_j the weight of
    prediction j in the loss; since scores are independent with mean zero, cross terms vanish in the mean.
    """
    labels = torch.multinomial(logits.detach().softmax(dim=1), 1)[:, 0]
    losses = nn.functional.cross_entropy(logits, labels, reduction="none")
    counts = torch.bincount(batch.rows, minlength=len(batch)).to(losses.dtype)
    total = (losses / (counts[batch.rows] * len(batch)).sqrt()).sum()
    gradients = torch.autograd.grad(total, parameters, materialize_grads=True)
    return [gradient.square() for gradient in gradients]
