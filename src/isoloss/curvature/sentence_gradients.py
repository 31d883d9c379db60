"""Which sentence and word each row of a model's arrays is of, and each sentence's gradient of a parameter."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.curvature.gradient_factors import Factors, Lookups, OuterProducts, Sums
from isoloss.curvature.parameter_uses import Node, ParameterUses, Use
from isoloss.errors import BadInput
from isoloss.objectives.batch import Batch, split_sentences

BLOCKS = 64
"""Clusters that are enough for an error bar: its own relative error is then 1 / √(2 · 63), about 9 %."""
LARGEST = 8
"""Sentences that a block has at most, so that differentiating it twice takes little memory."""


@dataclass(frozen=True)
class SentenceRows:
    """The n sentences, S positions and m predictions of a batch, by which arrays are told apart.

    `sentence` and `place` say of each prediction which sentence it belongs to, and as which of its own.
    `positions` is 0 where the arrays have a row for chosen words alone (`routed`).
    """

    sentences: int
    positions: int
    sentence: Int[Tensor, " m"]
    place: Int[Tensor, " m"]

    @staticmethod
    def of(batch: Batch) -> "SentenceRows":
        """Read off a batch, whose rows are sorted."""
        counts = torch.bincount(batch.rows, minlength=len(batch))
        first = counts.cumsum(0) - counts
        number = torch.arange(len(batch.rows), device=batch.rows.device)
        return SentenceRows(len(batch), batch.input_ids.shape[1], batch.rows, number - first[batch.rows])

    def routed(self, words: Int[Tensor, " k"]) -> "SentenceRows":
        """Of arrays with a row for each of these words, in any order; word s of sentence i is i S + s.

        >>> rows = SentenceRows(2, 3, torch.tensor([0]), torch.tensor([0]))
        >>> found = rows.routed(torch.tensor([4, 0, 5]))
        >>> found.sentence.tolist(), found.place.tolist()
        ([1, 0, 1], [0, 0, 1])
        """
        sentence = words // self.positions
        counts = torch.bincount(sentence, minlength=self.sentences)
        first = counts.cumsum(0) - counts
        place, order = torch.empty_like(sentence), sentence.argsort(stable=True)
        place[order] = torch.arange(len(words), device=words.device) - first[sentence[order]]
        return SentenceRows(self.sentences, 0, sentence, place)

    def are_words(self, shape: tuple[int, ...]) -> bool:
        """Whether an array that begins so has something for each position of each sentence."""
        return shape[:2] == (self.sentences, self.positions)

    def by_sentence(self, array: Float[Tensor, "... d"], shape: tuple[int, ...]) -> Tensor | None:
        """[n, T, d]: the array's rows, sentence by sentence, filled up with zeros.

        `shape` is what the dimensions before the last were before anything flattened them. Understood are
        [n, ..., S, ...], [S, n, ...], and either flattened; and a row for each prediction, [m] or [m, 1].
        None for any other, which may be shared by the sentences.
        """
        n, positions, m, d = self.sentences, self.positions, len(self.sentence), array.shape[-1]
        if n == 1:
            return array.reshape(1, -1, d)
        if len(shape) > 1 and shape[0] == n and positions in shape[1:]:
            return array.reshape(n, -1, d)
        if shape[:2] == (positions, n):
            return array.reshape(positions, n, -1, d).transpose(0, 1).flatten(1, 2)
        are_predictions, are_words = shape in ((m,), (m, 1)), shape == (n * positions,)
        if are_predictions and are_words and bool((torch.bincount(self.sentence) != positions).any()):
            return None
        if are_predictions:
            return self._predictions(array.reshape(m, d))
        return array.reshape(n, -1, d) if are_words else None

    def _predictions(self, array: Float[Tensor, "m d"]) -> Float[Tensor, "n M d"]:
        most = int(self.place.max()) + 1
        own = most * self.sentence + self.place
        if most * self.sentences == len(array) and bool((own[1:] > own[:-1]).all()):
            return array.view(self.sentences, most, -1)
        padded = array.new_zeros(self.sentences, most, array.shape[1])
        padded[self.sentence, self.place] = array
        return padded


def sentence_blocks(batches: Sequence[Batch], fewest: int = 2, largest: int = LARGEST) -> list[Batch]:
    """All sentences of the batches, in order, in `BLOCKS` blocks or more, as equal as the batches allow.

    Fewer sentences than `BLOCKS` are a block each; none has more than `largest`, or reaches from one batch
    into the next.
    Raises BadInput for fewer than `fewest` sentences.
    """
    n = sum(map(len, batches))
    if n < fewest:
        raise BadInput(f"{n} sentences have no standard error; measure on at least {fewest}")
    size = max(1, min(largest, n // BLOCKS))
    blocks = []
    for batch in batches:
        blocks += split_sentences(batch, -(-len(batch) // size))
    return blocks


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


_VIEWS = ("ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0")
_ROW_BY_ROW = (
    *("MmBackward0", "AddmmBackward0", "AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0"),
    *("SiluBackward0", "GeluBackward0", "ReluBackward0", "SigmoidBackward0", "TanhBackward0"),
    *("NegBackward0", "ClampBackward0", "ClampBackward1", "ToCopyBackward0", "NativeLayerNormBackward0"),
)
"""Operations that leave every row where it stands."""
_FARTHEST = 24
"""Steps from an expert's last operation down to where its words were picked out: two layers with a gate."""


def words_read(operation: Node, rows: SentenceRows) -> Int[Tensor, " k"] | None:
    """The number i S + s of the word that each row of the operation's result is computed from.

    Known where words were picked out of all [n S, d] of them by their numbers, and what followed went row by
    row, or took a piece of the rows; None otherwise, and where nothing was picked out.
    """
    return _words(operation, 0, rows, _FARTHEST, set())


def _words(node: Node | None, result: int, rows: SentenceRows, left: int, tried: set[Node]) -> Tensor | None:
    if node is None or left == 0 or node in tried:
        return None

    def below(child: int) -> Tensor | None:
        lower, result_of_lower = node.next_functions[child]
        return _words(lower, result_of_lower, rows, left - 1, tried)

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
    """What a cut along the rows leaves."""
    if node.name() == "SliceBackward0":
        return words[node._saved_start : node._saved_end : node._saved_step]
    sizes = node._saved_split_sizes if hasattr(node, "_saved_split_sizes") else node._saved_split_size
    return torch.split(words, sizes)[result]


def _are_all_words(node: Node | None, rows: SentenceRows) -> bool:
    """Whether a matrix has a row for each word of each sentence, in order: [n, S, d], flattened."""
    while node is not None and node.name() in _ROW_BY_ROW:
        node = node.next_functions[node.name() == "AddmmBackward0"][0]
    if node is None or node.name() not in _VIEWS:
        return False
    *leading, _ = node._saved_self_sym_sizes
    return tuple(leading) == (rows.sentences, rows.positions)
