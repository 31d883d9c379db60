"""A grammar as tensors, in which every rule has two symbols or one word on its right-hand side."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class BinaryGrammar:
    """S symbols, R rules parent[r] -> left[r] right[r], and c words.

    `initial[A]` weighs A as the root, `weight[r]` rule r, `emission[A, w]` the rule A -> w. A sentence's
    weight is the sum over its derivations of the product of the weights used. All float64.
    """

    initial: Float[Tensor, " S"]
    parent: Int[Tensor, " R"]
    left: Int[Tensor, " R"]
    right: Int[Tensor, " R"]
    weight: Float[Tensor, " R"]
    emission: Float[Tensor, "S c"]

    @property
    def symbols(self) -> int:
        """S, the number of symbols."""
        return self.emission.shape[0]

    def length_weights(self, longest: int) -> Float[Tensor, "L S"]:
        """Weight of all word sequences of length l = 0..`longest` that each symbol derives; L = longest + 1.

        w_1[A] = Σ_w A -> w and w_l[A] = Σ_{A -> B C} p Σ_k w_k[B] w_{l-k}[C].

        >>> half = torch.tensor([0.5], dtype=torch.float64)
        >>> zero = torch.tensor([0])
        >>> BinaryGrammar(half * 2, zero, zero, zero, half, half[:, None]).length_weights(3)[:, 0].tolist()
        [0.0, 0.5, 0.125, 0.0625]
        """
        weights = torch.zeros(longest + 1, self.symbols, dtype=torch.float64)
        for length in range(1, longest + 1):
            if length == 1:
                weights[1] = self.emission.sum(1)
                continue
            halves = weights[1:length]
            pairs = torch.einsum("kr,kr->r", halves[:, self.left], halves.flip(0)[:, self.right])
            weights[length].index_add_(0, self.parent, pairs * self.weight)
        return weights

    def derivable_lengths(self, longest: int) -> Bool[Tensor, "L S"]:
        """Which of the lengths 0..`longest` each symbol derives: `length_weights` without underflow.

        >>> one = torch.ones(1, dtype=torch.float64)
        >>> empty = torch.zeros(0, dtype=torch.int64)
        >>> BinaryGrammar(one, empty, empty, empty, one[:0], one[:, None]).derivable_lengths(2)[:, 0].tolist()
        [False, True, False]
        """
        possible = torch.zeros(longest + 1, self.symbols, dtype=torch.bool)
        for length in range(1, longest + 1):
            if length == 1:
                possible[1] = (self.emission > 0).any(1)
                continue
            halves = possible[1:length]
            used = (halves[:, self.left] & halves.flip(0)[:, self.right]).any(0)
            possible[length, self.parent[used]] = True
        return possible

    def left_corners(self) -> Float[Tensor, "S S"]:
        """Weight with which A's leftmost part is B: Σ_C p(A -> B C), with any right part (they sum to 1)."""
        corners = torch.zeros(self.symbols, self.symbols, dtype=torch.float64)
        return corners.index_put((self.parent, self.left), self.weight, accumulate=True)
