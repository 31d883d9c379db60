"""Which models can be asked at one position of each sentence, and asking them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from jaxtyping import Bool, Int
from torch import Tensor, nn
from transformers import BertForMaskedLM, GPT2LMHeadModel, RobertaPreLayerNormForMaskedLM
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions
from transformers.models.bert.modeling_bert import (
    BertAttention,
    BertEncoder,
    BertLayer,
    BertModel,
    BertSelfAttention,
)
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention, GPT2Block, GPT2Model
from transformers.models.roberta_prelayernorm.modeling_roberta_prelayernorm import (
    RobertaPreLayerNormAttention,
    RobertaPreLayerNormEncoder,
    RobertaPreLayerNormLayer,
    RobertaPreLayerNormModel,
    RobertaPreLayerNormSelfAttention,
)

from isoloss.models.chosen_positions.attention import (
    causal_states,
    post_layer_norm_states,
    pre_layer_norm_states,
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
GPT2: tuple[type, ...] = (GPT2Model, GPT2Block, GPT2Attention)
"""The modules of each layout that are passed over, from the backbone down into the last block."""


def states_at(model: nn.Module) -> StatesAt | None:
    """How the last states of `model` are had at one position of each sentence; None where it must run whole.

    Elsewhere only the last block's keys and values are needed: its queries, attention, feed-forward part and
    norms are computed at those positions alone, and the numbers are the same. Known are the layouts that are
    trained here, exactly those classes, with attention "eager" or "sdpa": a model with hooks or another
    `forward` on a module that would be passed over runs whole, as does every other.

    >>> from isoloss.models.shapes import laptop_shape
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
    elif type(model) is GPT2LMHeadModel:
        layout, states = GPT2, causal_states
    else:
        return None
    config = known.config
    is_otherwise = config.reorder_and_upcast_attn if states is causal_states else config.is_decoder
    if is_otherwise or config._attn_implementation not in ("eager", "sdpa"):
        return None
    parts = _passed_over(known.base_model)
    return states if all(map(_is_as_it_came, parts, layout)) else None


@contextmanager
def last_block_at(model: nn.Module, positions: Int[Tensor, " n"], states: StatesAt) -> Iterator[None]:
    """Let the backbone of `model` answer with `states` at `positions`, one of each sentence.

    The head, which treats positions alike, then scores those alone: `logits` are [n, 1, v]. The backbone is
    left as found, also after an exception.
    """
    backbone: Any = getattr(model, "base_model", model)
    backbone.forward = partial(_forward, backbone, positions, states)
    try:
        yield
    finally:
        del backbone.forward  # the class's own is found again


def _forward(
    backbone: Any,
    positions: Int[Tensor, " n"],
    states: StatesAt,
    input_ids: Int[Tensor, "n S"],
    attention_mask: Bool[Tensor, "n S"] | None = None,
    **_nothing: Any,
) -> BaseModelOutputWithPastAndCrossAttentions:
    """In place of a backbone's own; all else that its language model hands on is None, or wants no cache."""
    chosen = states(backbone, input_ids, attention_mask, positions)
    return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=chosen)


def _passed_over(backbone: Any) -> tuple[nn.Module, ...]:
    if isinstance(backbone, GPT2Model):
        last = backbone.h[-1]
        return backbone, last, last.attn
    last = backbone.encoder.layer[-1]
    return backbone, backbone.encoder, last, last.attention, last.attention.self


def _is_as_it_came(module: nn.Module, own_class: type) -> bool:
    hooked = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    return type(module) is own_class and not hooked
