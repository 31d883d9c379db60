"""Minibatches of the features of a linear probe: dense ones, and those of which all but a few are 0."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


@dataclass(frozen=True)
class OneHotRows:
    """n rows of D = `columns` features, such as which word is where, that are 0, but for a few that are 1.

    `ones[i]` numbers those of row i; -1 numbers none.

    >>> rows = OneHotRows(torch.tensor([[1, 2], [0, -1]]), columns=3)
    >>> rows.minibatch(torch.tensor([[0, 1]])).scores(torch.tensor([[[1.0, 10.0, 100.0, 0.5]]])).tolist()
    [[[110.5, 1.5]]]
    """

    ones: Int[Tensor, "n T"]
    columns: int

    def __len__(self) -> int:
        return len(self.ones)

    def minibatch(self, chosen: Int[Tensor, "S b"]) -> "OneHotMinibatch":
        """The chosen rows for each of S linear heads, with a last feature of 1, whose weight is the bias."""
        at = nn.functional.pad(self.ones[chosen], (0, 1), value=self.columns)
        return OneHotMinibatch(at.where(at >= 0, self.columns + 1), self.columns + 2)


@dataclass(frozen=True)
class OneHotMinibatch:
    """b rows for each of S heads by the places of their ones, the last of which is for what is nowhere."""

    at: Int[Tensor, "S b T_1"]
    places: int

    def scores(self, weight: Float[Tensor, "S k D_1"]) -> Float[Tensor, "S k b"]:
        """Each head's scores of its rows: sums of T + 1 weights."""
        S, b, _ = self.at.shape
        table = nn.functional.pad(weight.mT, (0, 0, 0, 1)).flatten(0, 1)
        return nn.functional.embedding_bag(self._numbers, table, mode="sum").view(S, b, -1).mT

    def gradient(self, residual: Float[Tensor, "S k b"]) -> Float[Tensor, "S k D_1"]:
        """That of a loss at the weights, from its gradient at the scores."""
        S, k, _ = residual.shape
        numbers = self._numbers
        spread = residual.mT.reshape(-1, 1, k).expand(-1, numbers.shape[1], -1)
        found = residual.new_zeros(S * self.places, k).index_put_((numbers,), spread, accumulate=True)
        return found.view(S, self.places, k)[:, :-1].mT.contiguous()

    @property
    def _numbers(self) -> Int[Tensor, "S_b T_1"]:
        """The places, numbered through all heads."""
        return (self.at + self.places * torch.arange(len(self.at))[:, None, None]).flatten(0, 1)


@dataclass(frozen=True)
class DenseMinibatch:
    """b rows of D features and a one for each of S heads."""

    x: Float[Tensor, "S b D_1"]

    def scores(self, weight: Float[Tensor, "S k D_1"]) -> Float[Tensor, "S k b"]:
        """Each head's scores of its rows."""
        return torch.bmm(weight, self.x.mT)

    def gradient(self, residual: Float[Tensor, "S k b"]) -> Float[Tensor, "S k D_1"]:
        """That of a loss at the weights, from its gradient at the scores."""
        return torch.bmm(residual, self.x)


Draw = Callable[[Tensor], DenseMinibatch | OneHotMinibatch]
"""The minibatch of the rows that each head chooses."""


def dense_minibatches(
    features: Float[Tensor, "n D"], size: int, dropout: float, generators: Sequence[torch.Generator]
) -> Draw:
    """Minibatches of at most `size` rows, each of which replaces the one before; see `_drop_out`."""
    with_one = with_one_more(features)
    most = len(generators) * min(len(features), size)
    # Into one buffer: a new one each step costs more, in page faults, than the arithmetic.
    buffer = features.new_empty(most, with_one.shape[1])

    def draw(chosen: Int[Tensor, "S b"]) -> DenseMinibatch:
        rows = torch.index_select(with_one, 0, chosen.flatten(), out=buffer[: chosen.numel()])
        x = rows.view(*chosen.shape, -1)
        if dropout:
            _drop_out(x, dropout, generators)
        return DenseMinibatch(x)

    return draw


def _drop_out(x: Float[Tensor, "S b D_1"], share: float, generators: Sequence[torch.Generator]) -> None:
    """Set a share of each head's features to 0 and scale up the others, except for the column of ones."""
    for features, generator in zip(x, generators, strict=True):
        kept = torch.rand(features.shape[0], features.shape[1] - 1, generator=generator) >= share
        features[:, :-1] *= kept.to(features) / (1 - share)


def with_one_more(features: Float[Tensor, "n D"]) -> Float[Tensor, "n D_1"]:
    """The features and a column of ones, whose weight is the bias."""
    return torch.cat([features, features.new_ones(len(features), 1)], dim=1)
