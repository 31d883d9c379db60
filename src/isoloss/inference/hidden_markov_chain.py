"""A hidden Markov chain as tensors: S states, each of which emits one of c words and moves to the next."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

SMALLEST_BLOCK = 8
"""Blocks with fewer rows are not split: more, smaller products take longer than fewer with zeros."""

RANGE = 1e-300
"""If no product of a whole sentence's factors can be smaller than this, no rescaling is needed."""

FLOOR = 1e-55
"""Otherwise, linear arithmetic is safe while positive entries of a vector that sums to 1 are at least this.
"""

FALL = 1e-65
"""Smallest factor by which numbers may shrink between rescalings; (FLOOR FALL)² FALL is representable."""


@dataclass(frozen=True)
class HiddenMarkovChain:
    """`initial[s]`, `transition[s, s']` and `emission[s, w]`: float64 distributions, rows that sum to 1."""

    initial: Float[Tensor, " S"]
    transition: Float[Tensor, "S S"]
    emission: Float[Tensor, "S c"]

    @property
    def states(self) -> int:
        """S, the number of states."""
        return self.emission.shape[0]

    @cached_property
    def by_word(self) -> Float[Tensor, "c S"]:
        """The probability of a word under each state; one contiguous row per word."""
        return self.emission.T.contiguous()

    @cached_property
    def transition_blocks(self) -> Float[Tensor, "B m m"]:
        """`transition` without the zeros around its diagonal blocks."""
        return diagonal_blocks(self.transition)

    @cached_property
    def reverse_blocks(self) -> Float[Tensor, "B m m"]:
        """The same for its transpose."""
        return diagonal_blocks(self.transition.T)

    @cached_property
    def emission_blocks(self) -> Float[Tensor, "B m k"]:
        """`emission` without the zeros around its diagonal blocks."""
        return diagonal_blocks(self.emission)

    def steps_in_range(self, steps: int) -> int:
        """How many steps can be taken before a positive number may underflow; 0 if even the first may.

        `steps` itself if no sentence of that many can. A step multiplies by an emission and a transition
        probability, so a positive number shrinks at most by the smallest positive value of each.

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
        """The smallest positive initial probability, and the smallest positive factor of a step."""
        initial, transition, emission = (
            math.log(float(distribution[distribution > 0].min()))
            for distribution in (self.initial, self.transition, self.emission)
        )
        return initial, transition + emission


def diagonal_blocks(matrix: Float[Tensor, "a b"]) -> Float[Tensor, "B a_B b_B"]:
    """The largest number of blocks of equal shape a/B x b/B outside which `matrix` is zero; at least 1.

    >>> diagonal_blocks(torch.eye(32)).shape, diagonal_blocks(torch.ones(32, 32)).shape
    (torch.Size([4, 8, 8]), torch.Size([1, 32, 32]))
    """
    rows, columns = matrix.shape
    for count in range(rows // SMALLEST_BLOCK, 1, -1):
        if math.gcd(rows, columns) % count == 0:
            cells = matrix.reshape(count, rows // count, count, columns // count)
            blocks = cells.diagonal(dim1=0, dim2=2).permute(2, 0, 1)
            if blocks.count_nonzero() == matrix.count_nonzero():
                return blocks.contiguous()
    # Stored column by column, which is the faster order for one large product.
    return matrix.T.contiguous().T[None]


def times_blocks(
    rows: Float[Tensor, "n a"], blocks: Float[Tensor, "B a_B b_B"], out: Float[Tensor, "n b"]
) -> Float[Tensor, "n b"]:
    """`rows` times the matrix of these diagonal blocks, written to `out`, whose last dimension is contiguous.

    >>> times_blocks(torch.tensor([[1.0, 2.0]]), torch.tensor([[[3.0]], [[4.0]]]), torch.empty(1, 2))
    tensor([[3., 8.]])
    """
    count = len(blocks)
    if count == 1:
        return torch.mm(rows, blocks[0], out=out)
    parts, result = (x.view(len(x), count, -1).transpose(0, 1) for x in (rows, out))
    torch.bmm(parts, blocks, out=result)
    return out
