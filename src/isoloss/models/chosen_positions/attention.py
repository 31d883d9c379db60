"""Attention from one position of each sentence to all of them."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import dropout, scaled_dot_product_attention, softmax


def at_positions(everywhere: Float[Tensor, "n S d"], positions: Int[Tensor, " n"]) -> Float[Tensor, "n 1 d"]:
    """What stands at `positions[i]` of sentence i.

    >>> at_positions(torch.arange(6.0).view(2, 3, 1), torch.tensor([2, 0])).flatten().tolist()
    [2.0, 3.0]
    """
    n, width, _ = everywhere.shape
    first = torch.arange(0, n * width, width, device=positions.device)
    # Unlike indexing by two tensors, `index_select` adds gradients up row by row, which is fast.
    return everywhere.flatten(0, 1).index_select(0, first + positions)[:, None]


def attended(
    attention: Any,
    queries: Float[Tensor, "n 1 d"],
    keys: Float[Tensor, "n S d"],
    values: Float[Tensor, "n S d"],
    visible: Bool[Tensor, "n S"] | None,
    heads: int,
    dropped: float,
) -> Float[Tensor, "n 1 d"]:
    """softmax(q kᵀ `attention.scaling`) v of each head, the heads side by side (Vaswani et al. 2017).

    `visible` says what each sentence's query sees; None is everything. `dropped` is the share of the weights
    that dropout hides. As `attention.config` has it, computed by torch's fused kernel or in plain operations.
    """
    n, width, _ = keys.shape
    query = queries.view(n, 1, heads, -1).transpose(1, 2)
    key = keys.view(n, width, heads, -1).transpose(1, 2)
    value = values.view(n, width, heads, -1).transpose(1, 2)
    seen = None if visible is None else visible[:, None, None]
    if attention.config._attn_implementation == "sdpa":
        of_heads = scaled_dot_product_attention(query, key, value, seen, dropped, scale=attention.scaling)
    else:
        scores = query @ key.mT * attention.scaling
        if seen is not None:
            scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
        of_heads = dropout(softmax(scores, dim=-1), dropped) @ value
    return of_heads.transpose(1, 2).reshape(n, 1, -1)


def mask_of_blocks(attention: str, visible: Bool[Tensor, "n ... S"], dtype: torch.dtype) -> Tensor:
    """`visible`, [n, S] or [n, S, S], as a block takes it: true or false for "sdpa", addends for "eager".

    >>> mask_of_blocks("eager", torch.tensor([[True, False]]), torch.float16).flatten().tolist()
    [0.0, -65504.0]
    """
    of_heads = visible[:, None] if visible.ndim == 3 else visible[:, None, None]
    if attention == "sdpa":
        return of_heads
    return torch.zeros_like(of_heads, dtype=dtype).masked_fill(~of_heads, torch.finfo(dtype).min)
