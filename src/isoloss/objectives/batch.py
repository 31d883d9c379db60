"""What an objective hands to a model, and the protocol that flatness needs of an objective."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


@dataclass(frozen=True)
class Batch:
    """Inputs for a model and the m words it has to predict.

    `input_ids` and `attention_mask` cover n sentences of S tokens; prediction j is the token at
    `positions[j]` of row `rows[j]`, truly `targets[j]`. Rows are sorted, and every row has at least one.
    """

    input_ids: Int[Tensor, "n S"]
    attention_mask: Bool[Tensor, "n S"]
    rows: Int[Tensor, " m"]
    positions: Int[Tensor, " m"]
    targets: Int[Tensor, " m"]

    def __len__(self) -> int:
        return self.input_ids.shape[0]

    def part(self, start: int, stop: int) -> "Batch":
        """Sentences `start` to `stop - 1` and their predictions."""
        bounds = torch.tensor([start, stop], device=self.rows.device)
        first, after = torch.searchsorted(self.rows, bounds).tolist()
        return Batch(
            self.input_ids[start:stop],
            self.attention_mask[start:stop],
            self.rows[first:after] - start,
            self.positions[first:after],
            self.targets[first:after],
        )

    def to(self, device: torch.device) -> "Batch":
        """The same batch on `device`; itself when it is there already."""
        if self.input_ids.device == device:
            return self
        return Batch(
            self.input_ids.to(device),
            self.attention_mask.to(device),
            self.rows.to(device),
            self.positions.to(device),
            self.targets.to(device),
        )


@runtime_checkable
class Objective(Protocol):
    """How predictions are read off a model: `logits[j]` scores the vocabulary for prediction j."""

    def logits(self, model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
        """Unnormalised log-probabilities of the batch's m predictions over the model's v tokens."""
        ...


def sentence_averaged_loss(logits: Float[Tensor, "m v"], batch: Batch) -> Float[Tensor, ""]:
    """Mean over sentences of the mean over each one's predictions of -log f(target), in nats (spec 1)."""
    if len(batch.rows) == len(batch):  # one prediction a sentence: the two means are one
        return nn.functional.cross_entropy(logits, batch.targets)
    losses = nn.functional.cross_entropy(logits, batch.targets, reduction="none")
    counts = torch.bincount(batch.rows, minlength=len(batch)).to(losses.dtype)
    return (losses / counts[batch.rows]).sum() / len(batch)
