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


def post_layer_norm_states(
    backbone: Any,
    input_ids: Int[Tensor, "n S"],
    attention_mask: Bool[Tensor, "n S"] | None,
    positions: Int[Tensor, " n"],
) -> Float[Tensor, "n 1 d"]:
    """The last states of a `BertModel` at one position of each sentence."""
    states = _before_last_block(backbone, input_ids, attention_mask)
    last = backbone.encoder.layer[-1]
    chosen = at_positions(states, positions)
    seen = _attended(last.attention.self, chosen, states, attention_mask)
    return _fed_forward(last, last.attention.output(seen, chosen))


def pre_layer_norm_states(
    backbone: Any,
    input_ids: Int[Tensor, "n S"],
    attention_mask: Bool[Tensor, "n S"] | None,
    positions: Int[Tensor, " n"],
) -> Float[Tensor, "n 1 d"]:
    """The last states of a `RobertaPreLayerNormModel` at one position of each sentence."""
    states = _before_last_block(backbone, input_ids, attention_mask)
    last = backbone.encoder.layer[-1]
    normed = last.attention.LayerNorm(states)
    seen = _attended(last.attention.self, at_positions(normed, positions), normed, attention_mask)
    summed = last.attention.output(seen, at_positions(states, positions))
    normed_last: Tensor = backbone.LayerNorm(_fed_forward(last, summed))
    return normed_last


def _before_last_block(
    backbone: Any, input_ids: Int[Tensor, "n S"], attention_mask: Bool[Tensor, "n S"] | None
) -> Float[Tensor, "n S d"]:
    states: Tensor = backbone.embeddings(input_ids=input_ids)
    mask = None
    if attention_mask is not None:
        mask = mask_of_blocks(backbone.config._attn_implementation, attention_mask, states.dtype)
    for block in backbone.encoder.layer[:-1]:
        states = block(states, mask)
    return states


def _attended(
    attention: Any,
    chosen: Float[Tensor, "n 1 d"],
    everywhere: Float[Tensor, "n S d"],
    attention_mask: Bool[Tensor, "n S"] | None,
) -> Float[Tensor, "n 1 d"]:
    query, key, value = attention.query(chosen), attention.key(everywhere), attention.value(everywhere)
    dropped = attention.dropout.p if attention.training else 0.0
    return attended(attention, query, key, value, attention_mask, attention.num_attention_heads, dropped)


def _fed_forward(block: Any, states: Float[Tensor, "n 1 d"]) -> Float[Tensor, "n 1 d"]:
    after: Tensor = block.output(block.intermediate(states), states)
    return after


def causal_states(
    backbone: Any,
    input_ids: Int[Tensor, "n S"],
    attention_mask: Bool[Tensor, "n S"] | None,
    positions: Int[Tensor, " n"],
) -> Float[Tensor, "n 1 d"]:
    """The last states of a `GPT2Model` at one position of each sentence.

    Its queries come of one product with keys and values, and are made everywhere with them.
    """
    place = torch.arange(input_ids.shape[1], device=input_ids.device)
    states: Tensor = backbone.drop(backbone.wte(input_ids) + backbone.wpe(place[None]))
    mask = _mask(backbone.config._attn_implementation, place, attention_mask, states.dtype)
    for block in backbone.h[:-1]:
        states = block(states, None, mask)

    last = backbone.h[-1]
    query, key, value = last.attn.c_attn(last.ln_1(states)).split(states.shape[-1], dim=2)
    seen = place <= positions[:, None]
    if attention_mask is not None:
        seen = seen & attention_mask
    dropped = last.attn.attn_dropout.p if last.attn.training else 0.0
    chosen = at_positions(query, positions)
    heads = attended(last.attn, chosen, key, value, seen, last.attn.num_heads, dropped)
    summed = last.attn.resid_dropout(last.attn.c_proj(heads)) + at_positions(states, positions)
    normed_last: Tensor = backbone.ln_f(summed + last.mlp(last.ln_2(summed)))
    return normed_last


def _mask(
    attention: str,
    place: Int[Tensor, " S"],
    attention_mask: Bool[Tensor, "n S"] | None,
    dtype: torch.dtype,
) -> Tensor | None:
    """What the blocks need to look back only; None where the fused kernel does so by itself."""
    if attention_mask is None and attention == "sdpa":
        return None
    before = (place <= place[:, None])[None]
    visible = before if attention_mask is None else before & attention_mask[:, None]
    return mask_of_blocks(attention, visible, dtype)
