"""The pre-LN transformer's forward and backward pass in a few large operations, for training on a CPU.

A training step of a small model spends much of its time on modules, autograd's nodes and copies, and on
torch's softmax, which is slow over rows of a dozen entries. Here each block is one autograd function whose
gradient is written out. Queries, keys and values are one product. In the last block, needed at one position
of each sentence only, there are neither keys nor values: with hidden states h and attention p, the score
q·(W h) of a head is (Wᵀq)·h, and its output Σ p (W h) is W Σ p h. Results equal those of
`pre_layer_norm_states` up to rounding.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding, gelu, layer_norm
from transformers import RobertaPreLayerNormForMaskedLM

from isoloss.models.chosen_positions import states_at
from isoloss.objectives.tokens import PAD

KNOWN = ("torch.nn.modules.", "transformers.activations", "transformers.models.roberta_prelayernorm.")
"""Where the classes of a model's parts must come from."""


def can_be_fused(model: nn.Module) -> bool:
    """Whether `fused_scores` can evaluate `model`: a pre-LN transformer on a CPU without dropout or hooks.

    Its attention must be "eager" ("sdpa" asks for torch's fused kernel), its activation GELU, and its parts
    those of `transformers` and torch, unchanged.

    >>> from isoloss.models.shapes import laptop_shape
    >>> from isoloss.models.transformers import PreLayerNormTransformer
    >>> architecture = PreLayerNormTransformer(laptop_shape(16), dropout=0.0, attention="eager")
    >>> can_be_fused(architecture.build(words=12, maximum_length=8, seed=0))
    True
    """
    if type(model) is not RobertaPreLayerNormForMaskedLM or states_at(model) is None:
        return False
    config: Any = model.config
    usual = config._attn_implementation == "eager" and config.hidden_act == "gelu"
    on_cpu = all(parameter.device.type == "cpu" for parameter in model.parameters())
    # Positions are counted without tokens of this number.
    counted: bool = config.pad_token_id == PAD
    return usual and on_cpu and counted and all(_is_plain(module, config) for module in model.modules())


def _is_plain(module: nn.Module, config: Any) -> bool:
    """Whether a module does what its class and the configuration say, and nothing beside it."""
    forward, backward = module._forward_hooks, module._backward_hooks
    hooked = forward or backward or module._forward_pre_hooks or module._backward_pre_hooks
    if hooked or "forward" in vars(module) or not type(module).__module__.startswith(KNOWN):
        return False
    if isinstance(module, nn.Dropout):
        return module.p == 0
    return not isinstance(module, nn.LayerNorm) or module.eps == config.layer_norm_eps


def fused_scores(
    model: nn.Module,
    input_ids: Int[Tensor, "n S"],
    attention_mask: Bool[Tensor, "n S"] | None,
    positions: Int[Tensor, " n"],
) -> Float[Tensor, "n v"]:
    """Scores of the v tokens at one position of each sentence, of a model that `can_be_fused`.

    `attention_mask` is None if no token is padding. The scores can be differentiated once, not twice. For the
    gradient a block of width d keeps some 20 d numbers a token and its attention.

    >>> from isoloss.models.shapes import laptop_shape
    >>> from isoloss.models.transformers import PreLayerNormTransformer
    >>> architecture = PreLayerNormTransformer(laptop_shape(16), dropout=0.0, attention="eager")
    >>> model = architecture.build(words=12, maximum_length=8, seed=0)
    >>> ids = torch.tensor([[1, 2, 5], [1, 7, 2]])
    >>> scores = fused_scores(model, ids, None, torch.tensor([1, 2]))
    >>> torch.allclose(scores, model(input_ids=ids).logits[[0, 1], [1, 2]], atol=1e-6)
    True
    """
    known: Any = model
    backbone = known.base_model
    states = _embedded(backbone, input_ids, attention_mask)
    hidden = None if attention_mask is None else ~attention_mask
    *blocks, last = backbone.encoder.layer
    for block in blocks:
        states = _block(states, hidden, *_settings(block), *_weights(block))
    chosen = _last_block(states, hidden, positions, *_settings(last), *_weights(last))
    scores: Tensor = known.lm_head(backbone.LayerNorm(chosen))
    return scores


def _embedded(
    backbone: Any, input_ids: Int[Tensor, "n S"], attention_mask: Bool[Tensor, "n S"] | None
) -> Float[Tensor, "n S d"]:
    parts = backbone.embeddings
    if attention_mask is not None:  # positions skip padding
        states: Tensor = parts(input_ids=input_ids)
        return states
    first, width = parts.padding_idx + 1, input_ids.shape[1]
    place = parts.position_embeddings.weight[first : first + width] + parts.token_type_embeddings.weight[0]
    words = embedding(input_ids, parts.word_embeddings.weight, parts.padding_idx)
    norm = parts.LayerNorm
    return layer_norm(words + place, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def _settings(block: Any) -> tuple[int, float]:
    """Attention heads, and the epsilon of the layer norms."""
    return block.attention.self.num_attention_heads, block.attention.LayerNorm.eps


def _weights(block: Any) -> tuple[Tensor, ...]:
    """A block's parameters, weight and bias of each part in the order of the forward pass."""
    attention = block.attention
    parts = (
        attention.LayerNorm,
        attention.self.query,
        attention.self.key,
        attention.self.value,
        attention.output.dense,
        block.intermediate.LayerNorm,
        block.intermediate.dense,
        block.output.dense,
    )
    return tuple(tensor for part in parts for tensor in (part.weight, part.bias))


class _Block(torch.autograd.Function):
    """y = x + attention(norm(x)), and y + feed-forward(norm(y)), at every position."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Float[Tensor, "n S d"],
        hidden: Bool[Tensor, "n S"] | None,
        heads: int,
        epsilon: float,
        *weights: Tensor,
    ) -> Float[Tensor, "n S d"]:
        gain, shift, wq, bq, wk, bk, wv, bv, wo, bo, *feed_forward = weights
        n, width, d = states.shape
        x = states.reshape(-1, d)
        normed, mean, scale = torch.native_layer_norm(x, (d,), gain, shift, epsilon)
        projection = torch.cat((wq, wk, wv))
        projected = torch.addmm(torch.cat((bq, bk, bv)), normed, projection.t())
        of_heads = projected.view(n, width, 3, heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = of_heads.reshape(3, n * heads, width, -1)

        scores = torch.bmm(query, key.mT).mul_((d // heads) ** -0.5)
        if hidden is not None:
            lowest = torch.finfo(scores.dtype).min
            scores.view(n, heads, width, width).masked_fill_(hidden[:, None, None], lowest)
        attention = _softmax_(scores, dim=2)
        attended = torch.bmm(attention, value).view(n, heads, width, -1).transpose(1, 2).reshape(-1, d)
        summed = torch.addmm(bo, attended, wo.t()).add_(x)
        result, kept = _fed_forward(summed, epsilon, *feed_forward)

        ctx.heads = heads
        own = (x, normed, mean, scale, projection, query, key, value, attention, attended, gain, shift, wo)
        ctx.save_for_backward(*own, *kept)
        return result.view(n, width, d)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, "n S d"]) -> tuple[Tensor | None, ...]:
        x, normed, mean, scale, projection, query, key, value, *saved = ctx.saved_tensors
        attention, attended, gain, shift, wo, *kept = saved
        heads, (n, width, d) = ctx.heads, gradient.shape
        of_sum, of_feed_forward = _fed_forward_backward(gradient.reshape(-1, d), *kept)

        of_heads = (of_sum @ wo).view(n, width, heads, -1).transpose(1, 2).reshape(n * heads, width, -1)
        of_attention = torch.bmm(of_heads, value.mT)
        of_scores = _softmax_backward(of_attention, attention, dim=2).mul_((d // heads) ** -0.5)
        of_projected = torch.stack(
            (torch.bmm(of_scores, key), torch.bmm(of_scores.mT, query), torch.bmm(attention.mT, of_heads))
        )
        rows = of_projected.view(3, n, heads, width, -1).permute(1, 3, 0, 2, 4).reshape(n * width, 3 * d)
        of_x, *of_norm = _layer_norm_backward(rows @ projection, x, mean, scale, gain, shift)
        of_q, of_k, of_v = (rows.t() @ normed).chunk(3)
        of_bq, of_bk, of_bv = rows.sum(0).chunk(3)
        of_output = (of_sum.t() @ attended, of_sum.sum(0))
        of_first_half = (*of_norm, of_q, of_bq, of_k, of_bk, of_v, of_bv, *of_output)
        return (of_x.add_(of_sum).view(n, width, d), None, None, None, *of_first_half, *of_feed_forward)


class _LastBlock(torch.autograd.Function):
    """The same at one position of each sentence, [n, d]."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Float[Tensor, "n S d"],
        hidden: Bool[Tensor, "n S"] | None,
        positions: Int[Tensor, " n"],
        heads: int,
        epsilon: float,
        *weights: Tensor,
    ) -> Float[Tensor, "n d"]:
        gain, shift, wq, bq, wk, _, wv, bv, wo, bo, *feed_forward = weights
        n, width, d = states.shape
        x = states.reshape(-1, d)
        normed, mean, scale = torch.native_layer_norm(x, (d,), gain, shift, epsilon)
        chosen = torch.arange(0, n * width, width, device=x.device) + positions
        normed_there = normed.index_select(0, chosen)
        query = torch.addmm(bq, normed_there, wq.t()).view(n, heads, -1).transpose(0, 1)
        # The key's bias adds the same to all scores of a query: it has no effect.
        towards = torch.bmm(query, wk.reshape(heads, -1, d)).transpose(0, 1)
        words = normed.view(n, width, d)
        scores = torch.bmm(words, towards.mT).mul_((d // heads) ** -0.5)
        if hidden is not None:
            scores.masked_fill_(hidden[:, :, None], torch.finfo(scores.dtype).min)
        attention = _softmax_(scores, dim=1)
        read = torch.bmm(attention.mT, words).transpose(0, 1)
        values = torch.bmm(read, wv.reshape(heads, -1, d).mT).transpose(0, 1).reshape(n, d)
        attended = values.add_(bv)
        summed = torch.addmm(bo, attended, wo.t()).add_(x.index_select(0, chosen))
        result, kept = _fed_forward(summed, epsilon, *feed_forward)

        own = (x, normed, mean, scale, chosen, normed_there, query, towards, attention, read, attended)
        ctx.save_for_backward(*own, gain, shift, wq, wk, wv, wo, *kept)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, "n d"]) -> tuple[Tensor | None, ...]:
        x, normed, mean, scale, chosen, normed_there, query, towards, *saved = ctx.saved_tensors
        attention, read, attended, gain, shift, wq, wk, wv, wo, *kept = saved
        (heads, n, size), d = query.shape, x.shape[1]
        words = normed.view(n, -1, d)
        of_sum, of_feed_forward = _fed_forward_backward(gradient, *kept)

        of_attended = of_sum @ wo
        of_heads = of_attended.view(n, heads, size).transpose(0, 1)
        of_wv = torch.bmm(of_heads.mT, read).view(d, d)
        of_read = torch.bmm(of_heads, wv.reshape(heads, size, d)).transpose(0, 1)
        of_scores = _softmax_backward(torch.bmm(words, of_read.mT), attention, dim=1).mul_(size**-0.5)
        of_towards = torch.bmm(of_scores.mT, words).transpose(0, 1)
        of_query = torch.bmm(of_towards, wk.reshape(heads, size, d).mT).transpose(0, 1).reshape(n, d)
        of_wk = torch.bmm(query.mT, of_towards).view(d, d)

        both = torch.cat((attention, of_scores), dim=2)
        of_normed = torch.bmm(both, torch.cat((of_read, towards), dim=1)).view(-1, d)
        of_normed.index_add_(0, chosen, of_query @ wq)
        of_x, *of_norm = _layer_norm_backward(of_normed, x, mean, scale, gain, shift)
        of_x.index_add_(0, chosen, of_sum)
        of_first_half = (
            *of_norm,
            of_query.t() @ normed_there,
            of_query.sum(0),
            of_wk,
            torch.zeros_like(shift),
            of_wv,
            of_attended.sum(0),
            of_sum.t() @ attended,
            of_sum.sum(0),
        )
        nothing = (None, None, None, None)
        return (of_x.view(n, -1, d), *nothing, *of_first_half, *of_feed_forward)


_block: Callable[..., Tensor] = _Block.apply
_last_block: Callable[..., Tensor] = _LastBlock.apply


def _fed_forward(
    x: Float[Tensor, "m d"], epsilon: float, *weights: Tensor
) -> tuple[Float[Tensor, "m d"], tuple[Tensor, ...]]:
    """x + W2 gelu(W1 norm(x) + b1) + b2, and what its gradient needs."""
    gain, shift, w1, b1, w2, b2 = weights
    normed, mean, scale = torch.native_layer_norm(x, x.shape[1:], gain, shift, epsilon)
    inner = torch.addmm(b1, normed, w1.t())
    activated = gelu(inner)
    result = torch.addmm(b2, activated, w2.t()).add_(x)
    return result, (x, normed, mean, scale, inner, activated, gain, shift, w1, w2)


def _fed_forward_backward(
    gradient: Float[Tensor, "m d"], *kept: Tensor
) -> tuple[Float[Tensor, "m d"], tuple[Tensor, ...]]:
    """The gradient with respect to x and to the six parameters."""
    x, normed, mean, scale, inner, activated, gain, shift, w1, w2 = kept
    of_inner = torch.ops.aten.gelu_backward(gradient @ w2, inner)
    of_x, *of_norm = _layer_norm_backward(of_inner @ w1, x, mean, scale, gain, shift)
    of_weights = (of_inner.t() @ normed, of_inner.sum(0), gradient.t() @ activated, gradient.sum(0))
    return of_x.add_(gradient), (*of_norm, *of_weights)


def _layer_norm_backward(
    gradient: Tensor, x: Tensor, mean: Tensor, scale: Tensor, gain: Tensor, shift: Tensor
) -> tuple[Tensor, ...]:
    of_all: tuple[Tensor, ...] = torch.ops.aten.native_layer_norm_backward(
        gradient, x, x.shape[1:], mean, scale, gain, shift, (True, True, True)
    )
    return of_all


def _softmax_(scores: Tensor, dim: int) -> Tensor:
    """In place: torch's softmax takes six times as long over rows of nine entries."""
    scores.sub_(scores.amax(dim, keepdim=True)).exp_()
    return scores.div_(scores.sum(dim, keepdim=True))


def _softmax_backward(gradient: Tensor, softmax: Tensor, dim: int) -> Tensor:
    product = gradient * softmax
    return product.addcmul_(softmax, product.sum(dim, keepdim=True), value=-1)
