"""Per-sentence gradients of a parameter at one of its uses, and the words their rows belong to."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.curvature.per_sentence.factors import Factors, Lookups, OuterProducts, Sums
from isoloss.curvature.per_sentence.parameter_uses import ParameterUses, Use
from isoloss.curvature.per_sentence.sentence_rows import Node, SentenceRows, bias_lookups, has_no_values


def sentence_gradients(use: Use, gradient: Tensor, rows: SentenceRows, uses: ParameterUses) -> Factors | None:
    """The factors of the per-sentence gradients, from the gradient that reaches the node the use watches.

    None if the sentences cannot be told apart: the shape of the arrays is ambiguous, or they are not computed
    from the words, so that a matching shape may be a coincidence.
    """
    if use.kind == "embedding":
        return _lookups(use.operation, gradient, rows)
    if use.kind == "relative bias":
        return bias_lookups(use.operation, use.read, gradient)
    if rows.sentences > 1 and use.operation not in uses.of_words:
        return None
    shape = tuple(gradient.shape[:-1])
    may_be_routed = rows.sentences > 1 and len(shape) == 1 and use.operation in uses.of_picked
    words = _words_read(use.operation, 0, rows, _FARTHEST, set()) if may_be_routed else None
    if words is not None:
        if len(words) != len(gradient):
            return None
        rows = rows.routed(words)
    elif rows.sentences > 1 and len(shape) == 1:
        shape = _before_flattening(use.operation, _operand_of_rows(use), shape[0], rows)
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


def _before_flattening(operation: Node, operand: int, flat: int, rows: SentenceRows) -> tuple[int, ...]:
    """The leading dimensions, sentences or positions first, of the array flattened into the `flat` rows.

    Read off the view that flattened it, below operations that keep rows in place; one row per prediction
    stays that, where the predictions were selected there. () if the order of the words is not known.
    """
    width = flat // rows.sentences
    are_words = flat % rows.sentences == 0 and width in rows.widths
    if not are_words and flat != len(rows.sentence):
        return ()
    flattened = _flattened(operation.next_functions[operand][0], flat, _FARTHEST, set())
    if flattened is None:  # one row for each sentence and prediction has no other order
        return (flat,) if flat == rows.sentences == len(rows.sentence) else ()
    if flattened.name() not in _VIEWS:
        return (flat,) if _selects_predictions(flattened, rows) else ()
    first = flattened._saved_self_sym_sizes[0]
    if not are_words:  # as many rows of something else as there are predictions
        return ()
    if first == rows.sentences:
        return rows.sentences, width
    return (width, rows.sentences) if first == width else ()


def _selects_predictions(selection: Node, rows: SentenceRows) -> bool:
    """Whether the rows selected are of the sentences that the predictions are of, in their order.

    They are compared, unless they have no values, where costs are foreseen.
    """
    is_along_one = selection.name() == "IndexSelectBackward0"
    indices: tuple[Tensor | None, ...] = (
        (selection._saved_index,) if is_along_one else selection._saved_indices
    )
    chosen = [index for index in indices if index is not None and index.shape == rows.sentence.shape]
    if len(chosen) < len(indices):
        return False
    if any(map(has_no_values, chosen)):
        return True
    sentence = rows.on(chosen[0].device).sentence
    if len(chosen) == 1:
        leading = _leading(selection.next_functions[0][0])
        return leading[:1] == (rows.sentences,) and torch.equal(chosen[0] // leading[1], sentence)
    return any(torch.equal(index, sentence) for index in chosen)


def _flattened(node: Node | None, flat: int, left: int, tried: set[Node]) -> Node | None:
    """The view that flattened an array into `flat` rows, or the operation that selected them."""
    if node is None or left == 0 or node in tried:
        return None
    name = node.name()
    if name in ("IndexBackward0", "IndexSelectBackward0"):
        return node
    if name in _VIEWS and node._saved_self_sym_sizes[0] != flat:
        return node
    if name not in _VIEWS and name not in _ROW_BY_ROW and not _widens_rows(node):
        return None
    tried.add(node)
    operands = [1] if name == "AddmmBackward0" else range(len(node.next_functions))
    found = (_flattened(node.next_functions[operand][0], flat, left - 1, tried) for operand in operands)
    return next((each for each in found if each is not None), None)


def _widens_rows(node: Node) -> bool:
    """Whether a dimension of size 1 is added behind that of the rows."""
    return bool(node.name() == "UnsqueezeBackward0" and node._saved_dim != 0)


def _multiplied(operation: Node, operand: int) -> Tensor:
    """The operand that a gain multiplied."""
    other: Tensor
    if operation.name() == "NativeLayerNormBackward0":
        other = (operation._saved_input - operation._saved_result1) * operation._saved_result2
    else:
        other = operation._saved_other if operand == 0 else operation._saved_self
    return other


_VIEWS = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0")
_ROW_BY_ROW = (
    *("MmBackward0", "AddmmBackward0", "AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0"),
    *("SiluBackward0", "GeluBackward0", "ReluBackward0", "SigmoidBackward0", "TanhBackward0"),
    *("NegBackward0", "ClampBackward0", "ClampBackward1", "ToCopyBackward0", "NativeLayerNormBackward0"),
    *("CloneBackward0", "NativeDropoutBackward0", "ErfBackward0", "PowBackward0", "LeakyReluBackward0"),
    "AliasBackward0",  # a slice of everything
)
"""Operations that leave every row where it stands."""
_FARTHEST = 24
"""Steps from an expert's last operation down to where its words were picked out: two layers with a gate."""


def _words_read(
    node: Node | None, result: int, rows: SentenceRows, left: int, tried: set[Node]
) -> Int[Tensor, " k"] | None:
    """The index i S + s of the word from which each row of a result of an operation is computed.

    Known if words were selected by index from all [n S, d] of them and what followed acted row by row or
    sliced the rows; None otherwise, and if nothing was selected.
    """
    if node is None or left == 0 or node in tried:
        return None

    def below(child: int) -> Tensor | None:
        lower, result_of_lower = node.next_functions[child]
        return _words_read(lower, result_of_lower, rows, left - 1, tried)

    name = node.name()
    if name == "IndexBackward0" and len(node._saved_indices) == 1 and node._saved_indices[0].ndim == 1:
        picked = node._saved_indices[0]
        picked = picked.nonzero().flatten() if picked.dtype == torch.bool else picked
        return picked if _are_all_words(node.next_functions[0][0], rows) else None
    if name == "IndexSelectBackward0" and node._saved_dim == 0:
        return node._saved_index if _are_all_words(node.next_functions[0][0], rows) else None
    if name in ("SplitBackward0", "SplitWithSizesBackward0", "SliceBackward0"):
        words = below(0)
        return words if words is None or node._saved_dim != 0 else _piece(words, node, result)
    if name in _ROW_BY_ROW:
        found = (below(child) for child in range(len(node.next_functions)))
        words = next((words for words in found if words is not None), None)
        if words is None:
            tried.add(node)
        return words
    return None


def _piece(words: Tensor, node: Node, result: int) -> Tensor:
    """The rows that a slice along the rows keeps."""
    if node.name() == "SliceBackward0":
        return words[node._saved_start : node._saved_end : node._saved_step]
    sizes = node._saved_split_sizes if hasattr(node, "_saved_split_sizes") else node._saved_split_size
    return torch.split(words, sizes)[result]


def _are_all_words(node: Node | None, rows: SentenceRows) -> bool:
    """Whether a matrix has a row for each word of each sentence, in order: [n, S, d], flattened."""
    return _leading(node) == (rows.sentences, rows.positions)


def _leading(node: Node | None) -> tuple[int, ...]:
    """The two leading dimensions of the array [., ., d] that was flattened into a matrix; () if none was."""
    while node is not None and node.name() in _ROW_BY_ROW:
        node = node.next_functions[node.name() == "AddmmBackward0"][0]
    if node is None or node.name() not in _VIEWS:
        return ()
    leading = tuple(node._saved_self_sym_sizes[:-1])
    return leading if len(leading) == 2 else ()
