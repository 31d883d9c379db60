"""What each sentence's gradient of a parameter is, at one of its uses."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.curvature.autograd_graph import Node
from isoloss.curvature.gradient_factors import Factors, Lookups, OuterProducts, Sums
from isoloss.curvature.parameter_uses import ParameterUses, Use
from isoloss.curvature.routed_words import words_read
from isoloss.curvature.sentence_rows import SentenceRows


def sentence_gradients(use: Use, gradient: Tensor, rows: SentenceRows, uses: ParameterUses) -> Factors | None:
    """The factors of the sentences' gradients, from the gradient that reaches what the use watches.

    None where it cannot tell the sentences apart: where the shape of the arrays does not tell, or where they
    are not computed from the words, so that the shape may be right by chance.
    """
    if use.way == "embedding":
        return _lookups(use.operation, gradient, rows)
    if rows.sentences > 1 and use.operation not in uses.of_words:
        return None
    shape = tuple(gradient.shape[:-1])
    may_be_routed = rows.sentences > 1 and len(shape) == 1 and use.operation in uses.of_picked
    words = words_read(use.operation, rows) if may_be_routed else None
    if words is not None:
        if len(words) != len(gradient):
            return None
        rows = rows.routed(words)
    elif use.operation.name() == "AddmmBackward0":
        shape = _before_flattening(use.operation, 1, shape)
    elif use.operation.name() == "MmBackward0":
        shape = _before_flattening(use.operation, 0, shape)
    if use.way == "linear":
        return _outer_products(use, gradient, rows, shape)
    if use.way != "bias":
        gradient = gradient * _multiplied(use.operation, use.operand)
    by_sentence = rows.by_sentence(gradient, shape)
    if by_sentence is None:
        return None
    return Sums(by_sentence.sum(dim=1, dtype=torch.promote_types(gradient.dtype, torch.float32)))


def with_mean(factors: Factors, use: Use, mean_squares: Float[Tensor, " m"], rows: SentenceRows) -> Factors:
    """The factors of the output layer with the mean of their squared norm; see `Directions`."""
    of_each = rows.by_sentence(mean_squares[:, None], (len(mean_squares),))
    if of_each is None or isinstance(factors, Lookups):
        return factors
    if isinstance(factors, Sums):
        return replace(factors, mean=of_each.sum(dim=(1, 2)))
    entered = factors.right if use.is_transposed else factors.left
    if entered.shape[1] != of_each.shape[1]:
        return factors
    return replace(factors, mean=(of_each * entered.double().square()).sum(dim=(1, 2)))


def _lookups(operation: Node, gradient: Tensor, rows: SentenceRows) -> Lookups | None:
    ids = operation._saved_indices
    if rows.sentences > 1:
        if not rows.are_words(tuple(gradient.shape)):
            return None
        ids = ids.expand(rows.sentences, rows.positions)
    ids = ids.reshape(rows.sentences, -1)
    # The padding's own row is never learned.
    is_padding = ids == operation._saved_padding_idx
    return Lookups(ids, gradient.reshape(*ids.shape, -1).masked_fill(is_padding[..., None], 0))


def _outer_products(
    use: Use, gradient: Tensor, rows: SentenceRows, shape: tuple[int, ...]
) -> OuterProducts | None:
    is_addmm = use.operation.name() == "AddmmBackward0"
    entered = use.operation._saved_mat1 if is_addmm else use.operation._saved_self
    inputs, outputs = rows.by_sentence(entered, shape), rows.by_sentence(gradient, shape)
    if inputs is None or outputs is None:
        return None
    return OuterProducts(outputs, inputs) if use.is_transposed else OuterProducts(inputs, outputs)


def _before_flattening(product: Node, operand: int, flat: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions before the last of what a product of matrices read: it is flattened to one for that."""
    view = product.next_functions[operand][0]
    if view is not None and view.name() in ("ViewBackward0", "UnsafeViewBackward0"):
        *leading, width = view._saved_self_sym_sizes
        read = product._saved_mat1_sym_sizes if operand else product._saved_self_sym_sizes
        if width == read[1]:
            return tuple(leading)
    return flat


def _multiplied(operation: Node, operand: int) -> Tensor:
    """What a gain multiplied."""
    other: Tensor
    if operation.name() == "NativeLayerNormBackward0":
        other = (operation._saved_input - operation._saved_result1) * operation._saved_result2
    else:
        other = operation._saved_other if operand == 0 else operation._saved_self
    return other
