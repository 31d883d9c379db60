"""Products with a block-diagonal matrix that leave its zeros out; a dense matrix is one block."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

SMALLEST_BLOCK = 8
"""Rows of a block below which more, smaller products take longer than fewer with zeros in them."""


def diagonal_blocks(matrix: Float[Tensor, "a b"]) -> Float[Tensor, "B a_B b_B"]:
    """The most blocks of one shape, a/B x b/B, outside which `matrix` is zero; at the least itself.

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
    # Stored by columns, which is the faster order for one large product.
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
