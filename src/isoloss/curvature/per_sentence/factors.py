"""A sentence's gradients in factored form, read off the uses of a parameter, and their norms."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.curvature.per_sentence.parameter_uses import ParameterUses, Use
from isoloss.curvature.per_sentence.sentence_rows import Node, SentenceRows, before_flattening, words_read
from isoloss.device import products_on_tensor_cores

MOST_COPIED = 1 << 22
"""How many numbers are copied into double precision at a time: 32 MiB."""


@dataclass(frozen=True)
class OuterProducts:
    """Σ_s left_s right_sᵀ: the gradient of a matrix used in a product.

    `mean`, if known, is used in place of the squared norm of this sum (`Directions`).
    """

    left: Float[Tensor, "n T a"]
    right: Float[Tensor, "n T b"]
    mean: Float[Tensor, " n"] | None = None


@dataclass(frozen=True)
class Lookups:
    """Σ_s e(id_s) right_sᵀ: the gradient of a matrix whose rows are looked up."""

    ids: Int[Tensor, "n T"]
    right: Float[Tensor, "n T b"]


@dataclass(frozen=True)
class Sums:
    """The gradient itself, of a bias or a gain; `mean` as above."""

    values: Float[Tensor, "n d"]
    mean: Float[Tensor, " n"] | None = None


Factors = OuterProducts | Lookups | Sums


def squared_norms(
    factors: Sequence[Factors], shape: tuple[int, ...], memory_bytes: int
) -> Float[Tensor, " n"]:
    """||the sum of all factors||² of each sentence, float64, for a parameter of this shape.

    Outer products: Σ_{s,s'} (left_s·left_s')(right_s·right_s') if that is cheaper than forming the matrix
    they sum to, T (a + b) <= a b, and otherwise through that matrix. Lookups: the contributions to the same
    word are summed first. Both together, as in a tied embedding: the two norms plus the cross term 2 Σ_{t,s}
    left_t[id_s] (right_t·right_s). Temporary arrays take at most `memory_bytes`, or what one sentence needs.

    >>> left, right = torch.ones(1, 2, 3), torch.tensor([[[1.0, 0.0], [0.0, 2.0]]])
    >>> squared_norms([OuterProducts(left, right)], (3, 2), 1 << 20).tolist()
    [15.0]
    """
    sums = [factor for factor in factors if isinstance(factor, Sums)]
    if sums:
        if len(sums) == 1 and sums[0].mean is not None:
            return sums[0].mean
        whole = sums[0].values if len(sums) == 1 else torch.stack([each.values for each in sums]).sum(0)
        return whole.double().square().sum(dim=1)
    of_halves = all(each.right.element_size() == 2 for each in factors if not isinstance(each, Sums))
    products = _all_products([factor for factor in factors if isinstance(factor, OuterProducts)])
    lookups = _all_lookups([factor for factor in factors if isinstance(factor, Lookups)])
    if products is None:
        assert lookups is not None
        return _of_lookups(lookups)
    if lookups is None and products.mean is not None:
        return products.mean
    n, places, _ = products.left.shape
    by_gram = places * sum(shape) <= shape[0] * shape[1]
    others = 0 if lookups is None else lookups.ids.shape[1]
    numbers = 2 * places * (places + others) if by_gram else shape[0] * shape[1]
    at_once = max(1, memory_bytes // max(1, numbers * products.left.element_size()))
    norms = []
    for start in range(0, n, at_once):
        part = slice(start, start + at_once)
        mean = None if products.mean is None else products.mean[part]
        some = OuterProducts(products.left[part], products.right[part], mean)
        looked_up = None if lookups is None else Lookups(lookups.ids[part], lookups.right[part])
        with products_on_tensor_cores(exact=of_halves):
            norms.append(_by_gram(some, looked_up) if by_gram else _by_matrix(some, looked_up))
    return norms[0] if len(norms) == 1 else torch.cat(norms)


def _all_products(products: list[OuterProducts]) -> OuterProducts | None:
    """All uses of one matrix as additional positions, so that they are summed before taking the norm."""
    if not products:
        return None
    left, right = (each.left for each in products), (each.right for each in products)
    mean = products[0].mean if len(products) == 1 else None
    return OuterProducts(_at_more_positions(*left), _at_more_positions(*right), mean)


def _all_lookups(lookups: list[Lookups]) -> Lookups | None:
    if not lookups:
        return None
    ids, right = (each.ids for each in lookups), (each.right for each in lookups)
    return Lookups(torch.cat(list(ids), dim=1), _at_more_positions(*right))


def _at_more_positions(*arrays: Float[Tensor, "n _ d"]) -> Float[Tensor, "n T d"]:
    """Concatenate, in at least single precision: half precision is too coarse for the sums that follow."""
    whole = arrays[0] if len(arrays) == 1 else torch.cat(arrays, dim=1)
    return whole.to(torch.promote_types(whole.dtype, torch.float32))


def _by_gram(products: OuterProducts, lookups: Lookups | None) -> Float[Tensor, " n"]:
    left, right = products.left, products.right
    norms = products.mean
    if norms is None:
        norms = sums_by_sentence((left @ left.mT) * (right @ right.mT))
    if lookups is None:
        return norms
    words = lookups.ids[:, None, :].expand(-1, left.shape[1], -1)
    cross = left.gather(2, words) * (right @ lookups.right.mT)
    return norms + 2 * sums_by_sentence(cross) + _of_lookups(lookups)


def _by_matrix(products: OuterProducts, lookups: Lookups | None) -> Float[Tensor, " n"]:
    matrices = products.left.mT @ products.right
    correction: Tensor | float = 0.0
    if products.mean is not None:
        correction = products.mean - sums_by_sentence(matrices.square())
    if lookups is not None:
        n, rows, columns = matrices.shape
        which = lookups.ids + rows * torch.arange(n, device=lookups.ids.device)[:, None]
        matrices.view(n * rows, columns).index_add_(0, which.flatten(), lookups.right.flatten(0, 1))
    return sums_by_sentence(matrices.square()) + correction


def sums_by_sentence(values: Float[Tensor, "n ..."]) -> Float[Tensor, " n"]:
    """Of each sentence's numbers, in double precision.

    A processor copies them into it, hence those of a few sentences at a time; larger matrices are summed by
    rows in their own precision first. Other devices convert each number as it is added.

    >>> sums_by_sentence(torch.ones(2, 3, 4))
    tensor([12., 12.], dtype=torch.float64)
    """
    if values.ndim == 1:
        return values.double()
    dimensions = tuple(range(1, values.ndim))
    if values.device.type != "cpu":
        return values.sum(dim=dimensions, dtype=torch.float64)
    of_one = max(1, values.numel() // len(values))
    if of_one > MOST_COPIED and values.ndim > 2:
        return sums_by_sentence(values.sum(dim=-1))
    pieces = torch.split(values, max(1, MOST_COPIED // of_one))
    return torch.cat([piece.sum(dim=dimensions, dtype=torch.float64) for piece in pieces])


def _of_lookups(lookups: Lookups) -> Float[Tensor, " n"]:
    n, _, columns = lookups.right.shape
    sentence = torch.arange(n, device=lookups.ids.device)[:, None]
    number_of_words = int(lookups.ids.max()) + 1
    words, which = torch.unique(lookups.ids + number_of_words * sentence, return_inverse=True)
    summed = lookups.right.new_zeros(len(words), columns)
    summed.index_add_(0, which.flatten(), lookups.right.flatten(0, 1))
    norms = summed.square().sum(dim=1, dtype=torch.float64)
    return norms.new_zeros(n).index_add_(0, words // number_of_words, norms)


class GatheredGradient:
    """Collects the factors from every use of one parameter, then computes the norms and frees the factors.

    `norms`, float64, is None until every use has reported its factors, and stays None if one of them could
    not be split by sentence.
    """

    def __init__(self, shape: tuple[int, ...], uses: int, memory_bytes: int) -> None:
        self.norms: Tensor | None = None
        self._shape = shape
        self._awaited = uses
        self._memory_bytes = memory_bytes
        self._factors: list[Factors] = []

    def receive(self, factors: Factors | None) -> None:
        """Take the factors of one use, or None if that use could not be split by sentence."""
        if factors is None:
            return
        if isinstance(factors, Sums) and factors.values.shape[1:] != self._shape:
            return  # one number for a whole vector: its gradient is summed further
        self._factors.append(factors)
        if len(self._factors) == self._awaited:
            self.norms = squared_norms(self._factors, self._shape, self._memory_bytes)
            self._factors = []


def sentence_gradients(use: Use, gradient: Tensor, rows: SentenceRows, uses: ParameterUses) -> Factors | None:
    """The factors of the per-sentence gradients, from the gradient that reaches the node the use watches.

    None if the sentences cannot be told apart: the shape of the arrays is ambiguous, or they are not computed
    from the words, so that a matching shape may be a coincidence.
    """
    if use.kind == "embedding":
        return _lookups(use.operation, gradient, rows)
    if use.kind == "relative bias":
        return _bias_lookups(use.operation, use.read, gradient)
    if rows.sentences > 1 and use.operation not in uses.of_words:
        return None
    shape = tuple(gradient.shape[:-1])
    may_be_routed = rows.sentences > 1 and len(shape) == 1 and use.operation in uses.of_picked
    words = words_read(use.operation, rows) if may_be_routed else None
    if words is not None:
        if len(words) != len(gradient):
            return None
        rows = rows.routed(words)
    elif rows.sentences > 1 and len(shape) == 1:
        shape = before_flattening(use.operation, _operand_of_rows(use), shape[0], rows)
    if use.kind == "linear":
        return _outer_products(use, gradient, rows, shape)
    if use.kind != "bias":
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
        if rows.positions_first:
            ids, gradient = ids.transpose(0, 1), gradient.transpose(0, 1)
        ids = ids.expand(gradient.shape[:-1])  # LongT5 looks up the distances to all global tokens
    ids = ids.reshape(rows.sentences, -1)
    # The padding row itself is never trained.
    is_padding = ids == operation._saved_padding_idx
    return Lookups(ids, gradient.reshape(*ids.shape, -1).masked_fill(is_padding[..., None], 0))


def _bias_lookups(lookup: Node, read: Tensor | None, gradient: Float[Tensor, "n h q k"]) -> Lookups:
    """The factors of the table's per-sentence gradients, from the gradient that reaches the node watched.

    They have a row for each entry of the table, of which there are far fewer than pairs.
    """
    gradient = gradient if read is None else gradient * read
    entries = int(lookup._saved_weight_sym_argsize_0)
    of_pairs = gradient.permute(0, 2, 3, 1).flatten(1, 2)
    of_pairs = of_pairs.to(torch.promote_types(of_pairs.dtype, torch.float32))
    ids: Int[Tensor, " p"] = lookup._saved_indices.flatten()
    summed = of_pairs.new_zeros(len(of_pairs), entries, of_pairs.shape[2]).index_add_(1, ids, of_pairs)
    return Lookups(torch.arange(entries, device=ids.device).expand(len(of_pairs), entries), summed)


def _outer_products(
    use: Use, gradient: Tensor, rows: SentenceRows, shape: tuple[int, ...]
) -> OuterProducts | None:
    is_addmm = use.operation.name() == "AddmmBackward0"
    entered = use.operation._saved_mat1 if is_addmm else use.operation._saved_self
    inputs, outputs = rows.by_sentence(entered, shape), rows.by_sentence(gradient, shape)
    if inputs is None or outputs is None:
        return None
    return OuterProducts(outputs, inputs) if use.is_transposed else OuterProducts(inputs, outputs)


def _operand_of_rows(use: Use) -> int:
    """Which operand of the operation holds the rows, given that another is the parameter."""
    match use.operation.name():
        case "AddmmBackward0":
            return 1
        case "MmBackward0" | "NativeLayerNormBackward0":
            return 0
    return 1 - use.operand


def _multiplied(operation: Node, operand: int) -> Tensor:
    """The operand that a gain multiplied."""
    other: Tensor
    if operation.name() == "NativeLayerNormBackward0":
        other = (operation._saved_input - operation._saved_result1) * operation._saved_result2
    else:
        other = operation._saved_other if operand == 0 else operation._saved_self
    return other
