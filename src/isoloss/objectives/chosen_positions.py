"""Evaluates models at one position per sentence only, where that is possible."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import dropout, scaled_dot_product_attention, softmax
from transformers import BertForMaskedLM, RobertaPreLayerNormForMaskedLM
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions
from transformers.models.bert.modeling_bert import (
    BertAttention,
    BertEncoder,
    BertLayer,
    BertModel,
    BertSelfAttention,
)
from transformers.models.roberta_prelayernorm.modeling_roberta_prelayernorm import (
    RobertaPreLayerNormAttention,
    RobertaPreLayerNormEncoder,
    RobertaPreLayerNormLayer,
    RobertaPreLayerNormModel,
    RobertaPreLayerNormSelfAttention,
)

StatesAt = Callable[[Any, Int[Tensor, "n S"], Bool[Tensor, "n S"] | None, Int[Tensor, " n"]], Tensor]
"""Of a backbone, token numbers, what is not padding, and a position of each sentence: states [n, 1, d]."""

BERT: tuple[type, ...] = (BertModel, BertEncoder, BertLayer, BertAttention, BertSelfAttention)
ROBERTA_PRE_LAYER_NORM: tuple[type, ...] = (
    RobertaPreLayerNormModel,
    RobertaPreLayerNormEncoder,
    RobertaPreLayerNormLayer,
    RobertaPreLayerNormAttention,
    RobertaPreLayerNormSelfAttention,
)
"""The modules of each layout that are passed over, from the backbone down into the last block."""


def states_at(model: nn.Module) -> StatesAt | None:
    """The function for the last states of `model` at one position per sentence; None if it must run in full.

    At other positions only the last block's keys and values are needed: its queries, attention, feed-forward
    part and norms are computed at the chosen positions alone, with the same results. Supported are exactly
    the bidirectional layouts trained here, with attention "eager" or "sdpa"; a model with hooks or another
    `forward` on a module that would be bypassed runs in full, as does any other model.

    >>> from isoloss.models.transformers import laptop_shape
    >>> from isoloss.models.transformers import PostLayerNormTransformer
    >>> model = PostLayerNormTransformer(laptop_shape(16)).build(words=12, maximum_length=8, seed=0)
    >>> states_at(model).__name__, states_at(model.bert)
    ('post_layer_norm_states', None)
    """
    known: Any = model
    if type(model) is BertForMaskedLM:
        layout, states = BERT, post_layer_norm_states
    elif type(model) is RobertaPreLayerNormForMaskedLM:
        layout, states = ROBERTA_PRE_LAYER_NORM, pre_layer_norm_states
    else:
        return None
    if known.config.is_decoder or known.config._attn_implementation not in ("eager", "sdpa"):
        return None
    parts = _passed_over(known.base_model)
    return states if all(map(_is_as_it_came, parts, layout)) else None


@contextmanager
def last_block_at(model: nn.Module, positions: Int[Tensor, " n"], states: StatesAt) -> Iterator[None]:
    """Make the backbone of `model` return `states` at `positions`, one per sentence.

    The head, which acts position by position, then scores only these: `logits` are [n, 1, v]. The backbone is
    left as found, even after an exception.
    """
    backbone: Any = getattr(model, "base_model", model)
    backbone.forward = partial(_forward, backbone, positions, states)
    try:
        yield
    finally:
        del backbone.forward  # the class's method is visible again


def _forward(
    backbone: Any,
    positions: Int[Tensor, " n"],
    states: StatesAt,
    input_ids: Int[Tensor, "n S"],
    attention_mask: Tensor | None = None,
    **_nothing: Any,
) -> BaseModelOutputWithPastAndCrossAttentions:
    """Replaces a backbone's forward; the remaining arguments it is passed are None, or turn the cache off.

    As the backbone does, it takes a mask of Boolean or integer numbers.
    """
    visible = None if attention_mask is None else attention_mask.bool()
    chosen = states(backbone, input_ids, visible, positions)
    return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=chosen)


def _passed_over(backbone: Any) -> tuple[nn.Module, ...]:
    last = backbone.encoder.layer[-1]
    return backbone, backbone.encoder, last, last.attention, last.attention.self


def _is_as_it_came(module: nn.Module, own_class: type) -> bool:
    hooked = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    return type(module) is own_class and not hooked


def at_positions(everywhere: Float[Tensor, "n S d"], positions: Int[Tensor, " n"]) -> Float[Tensor, "n 1 d"]:
    """The entry at `positions[i]` of sentence i.

    >>> at_positions(torch.arange(6.0).view(2, 3, 1), torch.tensor([2, 0])).flatten().tolist()
    [2.0, 3.0]
    """
    n, width, _ = everywhere.shape
    first = torch.arange(0, n * width, width, device=positions.device)
    # Unlike indexing with two tensors, `index_select` accumulates gradients row by row, which is fast.
    return everywhere.flatten(0, 1).index_select(0, first + positions)[:, None]


def mask_of_blocks(attention: str, visible: Bool[Tensor, "n S"], dtype: torch.dtype) -> Tensor:
    """`visible` in the form a block expects: Boolean for "sdpa", additive for "eager".

    >>> mask_of_blocks("eager", torch.tensor([[True, False]]), torch.float16).flatten().tolist()
    [0.0, -65504.0]
    """
    of_heads = visible[:, None, None]
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
    visible: Bool[Tensor, "n S"] | None,
) -> Float[Tensor, "n 1 d"]:
    """softmax(q kᵀ `attention.scaling`) v of each head, with heads concatenated (Vaswani et al. 2017).

    `visible` says what each sentence's query attends to; None means everything. Computed by torch's fused
    kernel or in plain operations, according to `attention.config`.
    """
    n, width, _ = everywhere.shape
    heads, dropped = attention.num_attention_heads, attention.dropout.p if attention.training else 0.0
    query = attention.query(chosen).view(n, 1, heads, -1).transpose(1, 2)
    key = attention.key(everywhere).view(n, width, heads, -1).transpose(1, 2)
    value = attention.value(everywhere).view(n, width, heads, -1).transpose(1, 2)
    seen = None if visible is None else visible[:, None, None]
    if attention.config._attn_implementation == "sdpa":
        of_heads = scaled_dot_product_attention(query, key, value, seen, dropped, scale=attention.scaling)
    else:
        scores = query @ key.mT * attention.scaling
        if seen is not None:
            scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
        of_heads = dropout(softmax(scores, dim=-1), dropped) @ value
    return of_heads.transpose(1, 2).reshape(n, 1, -1)


def _fed_forward(block: Any, states: Float[Tensor, "n 1 d"]) -> Float[Tensor, "n 1 d"]:
    after: Tensor = block.output(block.intermediate(states), states)
    return after
