"""GPT-2's layout."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from isoloss.models.chosen_positions.attention import at_positions, attended, mask_of_blocks


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
