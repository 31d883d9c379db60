"""Losses that are a given function of the weights, whatever the sentences."""

import torch

from isoloss.objectives.batch import Batch


class Function(torch.nn.Module):
    """The loss of every sentence is log 2 + `of`(w), whatever its words; a model and its own objective."""

    def __init__(self, of, weights) -> None:
        super().__init__()
        self.of = of
        self.weight = torch.nn.Parameter(torch.tensor(weights, dtype=torch.float64))

    def logits(self, model: torch.nn.Module, batch: Batch) -> torch.Tensor:
        excess = model.of(model.weight)
        other = (2 * excess.exp() - 1).log()
        return torch.stack([torch.zeros_like(other), other]).expand(len(batch.rows), 2)


def sentences(n):
    ids = torch.zeros(n, 1, dtype=torch.long)
    return Batch(ids, ids == 0, torch.arange(n), ids[:, 0], ids[:, 0])
