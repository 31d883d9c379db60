"""A hidden Markov chain as tensors: S states, each of which emits one of c words and passes to the next."""

import math
from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float
from torch import Tensor

from isoloss.inference.diagonal_blocks import diagonal_blocks

RANGE = 1e-300
"""Where no product of a whole sentence's factors is smaller, no number need ever be looked at."""

FLOOR = 1e-55
"""Else: the smallest positive number, beside a sum of 1, from which linear arithmetic goes on."""

FALL = 1e-65
"""How far numbers may fall between two looks at them; (FLOOR FALL)² FALL is still in float64's range."""


@dataclass(frozen=True)
class HiddenMarkovChain:
    """`initial[s]`, `transition[s, s']` and `emission[s, w]`: laws in float64, rows that sum to 1."""

    initial: Float[Tensor, " S"]
    transition: Float[Tensor, "S S"]
    emission: Float[Tensor, "S c"]

    @property
    def states(self) -> int:
        """S, the number of states."""
        return self.emission.shape[0]

    @cached_property
    def by_word(self) -> Float[Tensor, "c S"]:
        """How well each state explains a word: a row a word, contiguous."""
        return self.emission.T.contiguous()

    @cached_property
    def transition_blocks(self) -> Float[Tensor, "B m m"]:
        """`transition` without the zeros around its diagonal blocks."""
        return diagonal_blocks(self.transition)

    @cached_property
    def reverse_blocks(self) -> Float[Tensor, "B m m"]:
        """The same of its transpose."""
        return diagonal_blocks(self.transition.T)

    @cached_property
    def emission_blocks(self) -> Float[Tensor, "B m k"]:
        """`emission` without the zeros around its diagonal blocks."""
        return diagonal_blocks(self.emission)

    def steps_in_range(self, steps: int) -> int:
        """After how many steps at the latest positive numbers may have left the range; 0: at once.

        `steps` where that many never do. A step multiplies by an emission and a transition probability,
        so that a positive number shrinks by the smallest positive ones of each at most.

        >>> import torch
        >>> row = torch.tensor([[1e-3, 1 - 1e-3]], dtype=torch.float64)
        >>> chain = HiddenMarkovChain(torch.ones(1).double(), torch.ones(1, 1).double(), row)
        >>> chain.steps_in_range(50), chain.steps_in_range(500)
        (50, 21)
        """
        first, shrinking = self._logarithms_of_smallest
        if first + steps * shrinking > math.log(RANGE):
            return steps
        return int(math.log(FALL) / shrinking) if first > math.log(FLOOR) else 0

    @cached_property
    def _logarithms_of_smallest(self) -> tuple[float, float]:
        """Of the positive initial probabilities, and of what a step multiplies by."""
        initial, transition, emission = (
            math.log(float(law[law > 0].min())) for law in (self.initial, self.transition, self.emission)
        )
        return initial, transition + emission
