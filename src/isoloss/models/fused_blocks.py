"""The forward and backward pass of a pre-LN transformer's blocks and head, written out.

A forward pass takes a part's parameters, weight and bias of each module in its order, and also returns what
the backward pass needs. The backward pass returns the gradients with respect to the input and the parameters.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, addmm, bmm, mm
from torch.nn.functional import gelu

Saved = tuple[Tensor, ...]
Gradients = tuple[Tensor, ...]


def block(
    states: Float[Tensor, "n S d"],
    hidden: Bool[Tensor, "n S"] | None,
    heads: int,
    epsilon: float,
    *parameters: Tensor,
) -> tuple[Float[Tensor, "n S d"], Saved]:
    """y = x + attention(norm(x)), then y + feed-forward(norm(y)); no position reads a `hidden` one."""
    gain, shift, wq, bq, wk, bk, wv, bv, wo, bo, *feed_forward = parameters
    n, width, d = states.shape
    x = states.view(-1, d)
    normed, mean, scale = torch.native_layer_norm(x, (d,), gain, shift, epsilon)
    projection = torch.cat((wq, wk, wv))
    projected = addmm(torch.cat((bq, bk, bv)), normed, projection.t())
    of_heads = projected.view(n, width, 3, heads, -1).permute(2, 0, 3, 1, 4)
    query, key, value = of_heads.reshape(3, n * heads, width, -1).unbind()

    scores = bmm(query, key.mT).mul_((d // heads) ** -0.5)
    if hidden is not None:
        lowest = torch.finfo(scores.dtype).min
        scores.view(n, heads, width, width).masked_fill_(hidden[:, None, None], lowest)
    attention = _softmax_(scores, dim=2)
    attended = bmm(attention, value).view(n, heads, width, -1).transpose(1, 2).reshape(-1, d)
    summed = addmm(bo, attended, wo.t()).add_(x)
    result, of_result = _fed_forward(summed, epsilon, *feed_forward)
    saved = (x, normed, mean, scale, projection, query, key, value, attention, attended, gain, shift, wo)
    return result.view(n, width, d), (*saved, *of_result)


def block_backward(
    gradient: Float[Tensor, "n S d"], heads: int, saved: Saved
) -> tuple[Float[Tensor, "n S d"], Gradients]:
    """The backward pass of `block`."""
    x, normed, mean, scale, projection, query, key, value, *later = saved
    attention, attended, gain, shift, wo, *of_result = later
    n, width, d = gradient.shape
    of_sum, of_feed_forward = _fed_forward_backward(gradient.view(-1, d), *of_result)

    of_heads = mm(of_sum, wo).view(n, width, heads, -1).transpose(1, 2).reshape(n * heads, width, -1)
    of_attention = bmm(of_heads, value.mT)
    of_scores = _softmax_backward(of_attention, attention, dim=2).mul_((d // heads) ** -0.5)
    of_projected = torch.stack((bmm(of_scores, key), bmm(of_scores.mT, query), bmm(attention.mT, of_heads)))
    rows = of_projected.view(3, n, heads, width, -1).permute(1, 3, 0, 2, 4).reshape(n * width, 3 * d)
    of_x, *of_norm = layer_norm_backward(mm(rows, projection), x, mean, scale, gain, shift)
    of_q, of_k, of_v = mm(rows.t(), normed).chunk(3)
    of_bq, of_bk, of_bv = rows.sum(0).chunk(3)
    of_output = (mm(of_sum.t(), attended), of_sum.sum(0))
    of_first_half = (*of_norm, of_q, of_bq, of_k, of_bk, of_v, of_bv, *of_output)
    return of_x.add_(of_sum).view(n, width, d), (*of_first_half, *of_feed_forward)


def last_block(
    states: Float[Tensor, "n S d"],
    hidden: Bool[Tensor, "n S"] | None,
    positions: Int[Tensor, " n"],
    heads: int,
    epsilon: float,
    *parameters: Tensor,
) -> tuple[Float[Tensor, "n d"], Saved]:
    """`block` at one position of each sentence."""
    gain, shift, wq, bq, wk, _, wv, bv, wo, bo, *feed_forward = parameters
    n, width, d = states.shape
    x = states.view(-1, d)
    normed, mean, scale = torch.native_layer_norm(x, (d,), gain, shift, epsilon)
    chosen = torch.arange(0, n * width, width, device=positions.device) + positions
    normed_there = normed.index_select(0, chosen)
    query = addmm(bq, normed_there, wq.t()).view(n, heads, -1).transpose(0, 1)
    # The key's bias adds the same to all scores of a query: it has no effect.
    towards = bmm(query, wk.view(heads, -1, d)).transpose(0, 1)
    words = normed.view(n, width, d)
    scores = bmm(words, towards.mT).mul_((d // heads) ** -0.5)
    if hidden is not None:
        scores.masked_fill_(hidden[:, :, None], torch.finfo(scores.dtype).min)
    attention = _softmax_(scores, dim=1)
    read = bmm(attention.mT, words).transpose(0, 1)
    values = bmm(read, wv.view(heads, -1, d).mT).transpose(0, 1).reshape(n, d)
    attended = values.add_(bv)
    summed = addmm(bo, attended, wo.t()).add_(x.index_select(0, chosen))
    result, of_result = _fed_forward(summed, epsilon, *feed_forward)
    saved = (x, normed, mean, scale, chosen, normed_there, query, towards, attention, read, attended)
    return result, (*saved, gain, shift, wq, wk, wv, wo, *of_result)


def last_block_backward(
    gradient: Float[Tensor, "n d"], saved: Saved
) -> tuple[Float[Tensor, "n S d"], Gradients]:
    """The backward pass of `last_block`."""
    x, normed, mean, scale, chosen, normed_there, query, towards, *later = saved
    attention, read, attended, gain, shift, wq, wk, wv, wo, *of_result = later
    (heads, n, size), d = query.shape, x.shape[1]
    words = normed.view(n, -1, d)
    of_sum, of_feed_forward = _fed_forward_backward(gradient, *of_result)

    of_attended = mm(of_sum, wo)
    of_heads = of_attended.view(n, heads, size).transpose(0, 1)
    of_wv = bmm(of_heads.mT, read).view(d, d)
    of_read = bmm(of_heads, wv.view(heads, size, d)).transpose(0, 1)
    of_scores = _softmax_backward(bmm(words, of_read.mT), attention, dim=1).mul_(size**-0.5)
    of_towards = bmm(of_scores.mT, words).transpose(0, 1)
    of_query = bmm(of_towards, wk.view(heads, size, d).mT).transpose(0, 1).reshape(n, d)
    of_wk = bmm(query.mT, of_towards).view(d, d)

    both = torch.cat((attention, of_scores), dim=2)
    of_normed = bmm(both, torch.cat((of_read, towards), dim=1)).view(-1, d)
    of_normed.index_add_(0, chosen, mm(of_query, wq))
    of_x, *of_norm = layer_norm_backward(of_normed, x, mean, scale, gain, shift)
    of_x.index_add_(0, chosen, of_sum)
    of_q = (mm(of_query.t(), normed_there), of_query.sum(0))
    of_k_and_v = (of_wk, torch.zeros_like(shift), of_wv, of_attended.sum(0))
    of_output = (mm(of_sum.t(), attended), of_sum.sum(0))
    return of_x.view(n, -1, d), (*of_norm, *of_q, *of_k_and_v, *of_output, *of_feed_forward)


def head(
    states: Float[Tensor, "n d"], epsilon: float, *parameters: Tensor
) -> tuple[Float[Tensor, "n v"], Saved]:
    """The last norm, and the head: scores of v tokens."""
    gain, shift, dense, bias, head_gain, head_shift, decoder, decoder_bias = parameters
    normed, mean, scale = torch.native_layer_norm(states, states.shape[1:], gain, shift, epsilon)
    inner = addmm(bias, normed, dense.t())
    activated = gelu(inner)
    output, *of_output = torch.native_layer_norm(activated, states.shape[1:], head_gain, head_shift, epsilon)
    saved = (states, mean, scale, gain, shift, normed, inner, dense)
    later = (activated, *of_output, head_gain, head_shift, output, decoder)
    return addmm(decoder_bias, output, decoder.t()), (*saved, *later)


def head_backward(gradient: Float[Tensor, "n v"], saved: Saved) -> tuple[Float[Tensor, "n d"], Gradients]:
    """The backward pass of `head`."""
    states, mean, scale, gain, shift, normed, inner, dense, *later = saved
    activated, head_mean, head_scale, head_gain, head_shift, output, decoder = later
    of_activated, *of_head_norm = layer_norm_backward(
        mm(gradient, decoder), activated, head_mean, head_scale, head_gain, head_shift
    )
    of_inner = torch.ops.aten.gelu_backward.default(of_activated, inner)
    of_states, *of_norm = layer_norm_backward(mm(of_inner, dense), states, mean, scale, gain, shift)
    of_dense = (mm(of_inner.t(), normed), of_inner.sum(0))
    of_decoder = (mm(gradient.t(), output), gradient.sum(0))
    return of_states, (*of_norm, *of_dense, *of_head_norm, *of_decoder)


def _fed_forward(
    x: Float[Tensor, "m d"], epsilon: float, *parameters: Tensor
) -> tuple[Float[Tensor, "m d"], Saved]:
    """x + W2 gelu(W1 norm(x) + b1) + b2."""
    gain, shift, w1, b1, w2, b2 = parameters
    normed, mean, scale = torch.native_layer_norm(x, x.shape[1:], gain, shift, epsilon)
    inner = addmm(b1, normed, w1.t())
    activated = gelu(inner)
    result = addmm(b2, activated, w2.t()).add_(x)
    return result, (x, normed, mean, scale, inner, activated, gain, shift, w1, w2)


def _fed_forward_backward(
    gradient: Float[Tensor, "m d"], *saved: Tensor
) -> tuple[Float[Tensor, "m d"], Gradients]:
    x, normed, mean, scale, inner, activated, gain, shift, w1, w2 = saved
    of_inner = torch.ops.aten.gelu_backward.default(mm(gradient, w2), inner)
    of_x, *of_norm = layer_norm_backward(mm(of_inner, w1), x, mean, scale, gain, shift)
    of_weights = (mm(of_inner.t(), normed), of_inner.sum(0), mm(gradient.t(), activated), gradient.sum(0))
    return of_x.add_(gradient), (*of_norm, *of_weights)


def layer_norm_backward(
    gradient: Tensor, x: Tensor, mean: Tensor, scale: Tensor, gain: Tensor, shift: Tensor
) -> tuple[Tensor, ...]:
    """Of a norm over the last dimension: the gradients with respect to x, gain and shift."""
    of_all: tuple[Tensor, ...] = torch.ops.aten.native_layer_norm_backward.default(
        gradient, x, x.shape[-1:], mean, scale, gain, shift, (True, True, True)
    )
    return of_all


def _softmax_(scores: Tensor, dim: int) -> Tensor:
    """In place: torch's softmax takes six times as long over rows of nine entries."""
    scores.sub_(scores.amax(dim, keepdim=True)).exp_()
    return scores.div_(scores.sum(dim, keepdim=True))


def _softmax_backward(gradient: Tensor, softmax: Tensor, dim: int) -> Tensor:
    product = gradient * softmax
    return product.addcmul_(softmax, product.sum(dim, keepdim=True), value=-1)
