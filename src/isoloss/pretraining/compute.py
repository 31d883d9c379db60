"""How a step's gradient is computed, where that changes a run's last digits."""

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from isoloss.checked_files import ONLY_WHEN_CHANGED
from isoloss.errors import BadInput
from isoloss.models.chosen_positions import last_block_at, states_at
from isoloss.objectives.batch import Batch, Objective

Precision = Literal["float32", "bfloat16"]


@dataclass(frozen=True)
class Compute:
    """The precision of the matrix products in training, and whether its forward pass is compiled.

    "bfloat16" is torch's autocast: weights, their gradients and updates stay float32, matrix products and
    what they hand on have 8 bits of mantissa, scores are float32 again before the loss. `compiled` hands
    the model's backbone to `torch.compile`, which takes up to minutes at the first steps and needs a
    compiler; dropout then draws other numbers. Both belong to the training loss alone: checkpoints are
    measured, and the adversary's features read, in the model's own float32.

    `micro_batch` is how many sentences a process passes at once: gradients of a larger batch are added up
    over as many as it takes, in the memory that one of them needs, and are those of the whole batch but for
    rounding (`Training.add_gradient`). Dropout then draws other numbers, which is why it names a run.
    """

    precision: Precision = "float32"
    compiled: bool = False
    micro_batch: int | None = field(default=None, metadata=ONLY_WHEN_CHANGED)

    def __post_init__(self) -> None:
        if self.micro_batch is not None and self.micro_batch < 1:
            raise BadInput(f"a micro-batch needs at least one sentence, not {self.micro_batch}")

    def of(self, objective: Objective, model: nn.Module) -> Objective:
        """The objective, its scores of `model` computed this way; itself in plain float32."""
        carried_out = CompiledForward(objective, model) if self.compiled else objective
        return Bfloat16Forward(carried_out) if self.precision == "bfloat16" else carried_out


@dataclass(frozen=True)
class Bfloat16Forward:
    """An `Objective` under torch's autocast to bfloat16."""

    objective: Objective

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """See `Objective.logits`; float32."""
        with torch.autocast(batch.input_ids.device.type, dtype=torch.bfloat16):
            scores = self.objective.logits(model, batch)
        return scores.float()


class CompiledForward:
    """An `Objective` for which the forward pass of `model`'s backbone is compiled, and only here.

    Elsewhere the model is as ever: what measures it differentiates twice, or maps over sentences, neither
    of which compiled code can.
    """

    def __init__(self, objective: Objective, model: nn.Module) -> None:
        self.objective = objective
        self.backbone: nn.Module = getattr(model, "base_model", model)
        # Not the module's call: compiled with it, the hooks by which an objective picks its predictions would
        # be those of the first batch for ever.
        self.forward = torch.compile(self.backbone.forward)
        states = states_at(model)
        self.states = None if states is None else torch.compile(states)

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """See `Objective.logits`."""
        if self.states is not None and len(batch.rows) == len(batch):
            with last_block_at(model, batch.positions, self.states):
                return self.objective.logits(model, batch)
        self.backbone.forward = self.forward
        try:
            return self.objective.logits(model, batch)
        finally:
            del self.backbone.forward  # the class's own is found again
