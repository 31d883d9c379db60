"""Muon: orthogonalised momentum on the hidden matrices, AdamW on the rest (Jordan et al. 2024)."""

from dataclasses import dataclass, field

import torch
from torch import nn
from transformers import PreTrainedModel

from isoloss.errors import BadInput
from isoloss.pretraining.adamw import AdamW, parameters_by_decay
from isoloss.pretraining.descent import (
    Descent,
    GradientRule,
    check_momentum,
    check_rate_and_decay,
    plain_rule,
)
from isoloss.pretraining.update_rule import Training


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
        """See `UpdateRuleSettings.build`."""
        return plain_rule(training, self.descent(training))


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The trained matrices that are neither an embedding nor the output layer."""
    ends = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    output = model.get_output_embeddings() if isinstance(model, PreTrainedModel) else None
    outer = {id(parameter) for module in [*ends, output] if module for parameter in module.parameters()}
    return [p for p in model.parameters() if p.requires_grad and p.ndim == 2 and id(p) not in outer]
