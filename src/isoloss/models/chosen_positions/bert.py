"""BERT's layout and RoBERTa's with the norms before the blocks, whose names differ in nothing else."""

from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from isoloss.models.chosen_positions.attention import at_positions, attended, mask_of_blocks


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
