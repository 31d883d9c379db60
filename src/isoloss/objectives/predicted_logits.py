"""A language model's scores at the predicted positions alone.

Its head runs at these positions only. Where each sentence has a single one, so does the last block of the
layouts that are trained here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import dropout, scaled_dot_product_attention, softmax
from transformers import BertForMaskedLM, PreTrainedModel, RobertaPreLayerNormForMaskedLM
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions
from transformers.models.bert import modeling_bert
from transformers.models.roberta_prelayernorm import modeling_roberta_prelayernorm

from isoloss.errors import BadInput, first_line
from isoloss.objectives.batch import Batch


def logits_at_predictions(model: nn.Module, batch: Batch, **arguments: Any) -> Float[Tensor, "m v"]:
    """Scores of the v tokens for each of the m predictions, as a part of `model(input_ids, **arguments)`.

    A model of `transformers` has a `base_model`, which passes states [n, S, d] to a head. They are replaced
    by the states at the predictions only, [m, 1, d], there or at the latest at the input of the output
    embeddings: heads act position by position, and with a large vocabulary they dominate the cost. If each
    sentence has one prediction, the last block of a supported layout also runs at that position only
    (`states_at`). Any other model that returns `logits` [n, S, v] runs in full, and the predictions are
    selected: the numbers are the same. Those of a model on several devices come to the batch's.

    Raises BadInput for a model that returns no `logits`, or logits that are not per position, and for
    sentences that a model on a processor has no positions or tokens for.
    """
    n, width = (batch.input_ids if batch.decoder_ids is None else batch.decoder_ids).shape

    def keep_predictions(states: Tensor) -> Tensor:
        of_positions = states.ndim == 3 and states.shape[:2] == (n, width)  # FSMT's embeddings take words
        return at_positions(states, batch.rows, batch.positions)[:, None] if of_positions else states

    def after_backbone(_module: nn.Module, _inputs: Any, output: Any) -> None:
        if getattr(output, "last_hidden_state", None) is not None:
            output.last_hidden_state = keep_predictions(output.last_hidden_state)

    def before_scores(_module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return keep_predictions(inputs[0]), *inputs[1:]

    # A row has at least one prediction: with as many predictions as rows, each has one.
    states = states_at(model) if len(batch.rows) == n else None
    partly = nullcontext() if states is None else last_block_at(model, batch.positions, states)
    hooks = []
    if isinstance(model, PreTrainedModel) and model.base_model is not model:
        hooks.append(model.base_model.register_forward_hook(after_backbone))
        if model.get_output_embeddings() is not None:
            hooks.append(model.get_output_embeddings().register_forward_pre_hook(before_scores))
    try:
        with partly:
            logits: Tensor | None = getattr(model(input_ids=batch.input_ids, **arguments), "logits", None)
    except IndexError as error:  # on a processor; a GPU does not say which operation failed
        raise BadInput(
            f"{type(model).__name__} cannot read sentences of {width} tokens ({first_line(error)}): it has "
            "fewer positions than its configuration says, or fewer tokens than its tokenizer; give shorter "
            "sentences"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    if logits is not None and logits.shape[:-1] == (len(batch.rows), 1):
        return logits.flatten(0, 1).to(batch.rows.device)
    # Perceiver answers for all its positions, however many were requested.
    most = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    if logits is not None and logits.shape[:-1] in ((n, width), (n, most)):
        return at_positions(logits, batch.rows, batch.positions).to(batch.rows.device)
    raise BadInput(
        f"{type(model).__name__} gives no scores of words, which are a language model's `logits` of every "
        "position; load it with its language head"
    )


def at_positions(
    everywhere: Float[Tensor, "n S d"], rows: Int[Tensor, " m"], positions: Int[Tensor, " m"]
) -> Float[Tensor, "m d"]:
    """The entries at `positions` of these rows.

    >>> at_positions(torch.arange(6.0).view(2, 3, 1), torch.tensor([0, 1]), torch.tensor([2, 0])).tolist()
    [[2.0], [3.0]]
    """
    # Unlike indexing with two tensors, `index_select` accumulates gradients row by row, which is fast.
    chosen = rows * everywhere.shape[1] + positions
    return everywhere.flatten(0, 1).index_select(0, chosen.to(everywhere.device))


def causal_logits(model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
    """Scores of the v tokens for the token after each of the m positions; see `logits_at_predictions`.

    A word attends only to what precedes it, so padding after a sentence needs no attention mask; the mask is
    passed if there is padding on the left. Keys and values are not cached.

    Raises BadInput for a bidirectional model, which would see the tokens it has to predict.
    """
    if type(model).__name__.endswith("ForMaskedLM"):
        raise BadInput(
            f"{type(model).__name__} reads sentences both ways and would see the next word; take a causal "
            "model, such as GPT2Transformer builds"
        )
    arguments: dict[str, Any] = {}
    mask = batch.attention_mask
    if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        arguments["attention_mask"] = mask
    if hasattr(getattr(model, "config", None), "use_cache"):
        arguments["use_cache"] = False
    return logits_at_predictions(model, batch, **arguments)


def masked_logits(model: nn.Module, batch: Batch) -> Float[Tensor, "m v"]:
    """Scores of the model's v tokens for each of the m predictions; see `logits_at_predictions`.

    Positions and segments are left to the model's defaults. The attention mask is omitted when nothing is
    padded.
    """
    mask = None if bool(batch.attention_mask.all()) else batch.attention_mask
    if mask is not None and isinstance(model, PreTrainedModel) and states_at(model) is None:
        mask = mask.long()  # as tokenizers give it: XLNet subtracts it
    return logits_at_predictions(model, batch, attention_mask=mask)


StatesAt = Callable[[Any, Int[Tensor, "n S"], Bool[Tensor, "n S"] | None, Int[Tensor, " n"]], Tensor]
"""Of a backbone, token numbers, what is not padding, and a position of each sentence: states [n, 1, d]."""

BERT: tuple[type, ...] = (
    modeling_bert.BertModel,
    modeling_bert.BertEncoder,
    modeling_bert.BertLayer,
    modeling_bert.BertAttention,
    modeling_bert.BertSelfAttention,
)
ROBERTA_PRE_LAYER_NORM: tuple[type, ...] = (
    modeling_roberta_prelayernorm.RobertaPreLayerNormModel,
    modeling_roberta_prelayernorm.RobertaPreLayerNormEncoder,
    modeling_roberta_prelayernorm.RobertaPreLayerNormLayer,
    modeling_roberta_prelayernorm.RobertaPreLayerNormAttention,
    modeling_roberta_prelayernorm.RobertaPreLayerNormSelfAttention,
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
    last = known.base_model.encoder.layer[-1]
    parts = (known.base_model, known.base_model.encoder, last, last.attention, last.attention.self)
    return states if all(map(_is_as_it_came, parts, layout)) else None


@contextmanager
def last_block_at(model: nn.Module, positions: Int[Tensor, " n"], states: StatesAt) -> Iterator[None]:
    """Make the backbone of `model` return `states` at `positions`, one per sentence.

    The head, which acts position by position, then scores only these: `logits` are [n, 1, v]. The backbone is
    left as found, even after an exception.
    """
    backbone: Any = getattr(model, "base_model", model)

    # The remaining arguments that a backbone is passed are None, or turn the cache off.
    def forward(
        input_ids: Int[Tensor, "n S"], attention_mask: Tensor | None = None, **_nothing: Any
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        visible = None if attention_mask is None else attention_mask.bool()
        chosen = states(backbone, input_ids, visible, positions)
        return BaseModelOutputWithPastAndCrossAttentions(last_hidden_state=chosen)

    backbone.forward = forward
    try:
        yield
    finally:
        del backbone.forward  # the class's method is visible again


def _is_as_it_came(module: nn.Module, own_class: type) -> bool:
    hooked = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    return type(module) is own_class and not hooked


def post_layer_norm_states(
    backbone: Any,
    input_ids: Int[Tensor, "n S"],
    attention_mask: Bool[Tensor, "n S"] | None,
    positions: Int[Tensor, " n"],
) -> Float[Tensor, "n 1 d"]:
    """The last states of a `BertModel` at one position of each sentence."""
    states = _before_last_block(backbone, input_ids, attention_mask)
    last = backbone.encoder.layer[-1]
    chosen = _of_each(states, positions)
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
    seen = _attended(last.attention.self, _of_each(normed, positions), normed, attention_mask)
    summed = last.attention.output(seen, _of_each(states, positions))
    normed_last: Tensor = backbone.LayerNorm(_fed_forward(last, summed))
    return normed_last


def _before_last_block(
    backbone: Any, input_ids: Int[Tensor, "n S"], attention_mask: Bool[Tensor, "n S"] | None
) -> Float[Tensor, "n S d"]:
    states: Tensor = backbone.embeddings(input_ids=input_ids)
    mask = None
    if attention_mask is not None:
        mask = attention_mask[:, None, None]
        if backbone.config._attn_implementation == "eager":
            mask = torch.zeros_like(mask, dtype=states.dtype).masked_fill(
                ~mask, torch.finfo(states.dtype).min
            )
    for block in backbone.encoder.layer[:-1]:
        states = block(states, mask)
    return states


def _of_each(everywhere: Float[Tensor, "n S d"], positions: Int[Tensor, " n"]) -> Float[Tensor, "n 1 d"]:
    rows = torch.arange(len(everywhere), device=positions.device)
    return at_positions(everywhere, rows, positions)[:, None]


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
