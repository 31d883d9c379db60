"""Which rows of a model's arrays are a sentence's, by their layout and by what they were computed from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from isoloss.objectives.batch import Batch

Node = Any
"""A `torch.autograd.graph.Node`; what it saved are attributes that its type does not declare."""


@dataclass(frozen=True)
class SentenceRows:
    """The sizes n, S and m of a batch, from which the layout of a model's arrays is recognised.

    `sentence[j]` is the sentence of prediction j, `place[j]` its index among that sentence's predictions.
    `positions` is 0 for arrays that have rows for selected words only (see `routed`). Words are looked up as
    [n, S], or as [S, n] if `positions_first`. `other_widths` are those of further arrays that have a
    sentence's rows together, as of words padded to whole windows beside a decoder's; none is n.
    """

    sentences: int
    positions: int
    sentence: Int[Tensor, " m"]
    place: Int[Tensor, " m"]
    positions_first: bool = False
    other_widths: tuple[int, ...] = ()

    @property
    def widths(self) -> tuple[int, ...]:
        """How many rows a sentence may have."""
        return self.positions, *self.other_widths

    @staticmethod
    def of(batch: Batch) -> "SentenceRows":
        """Read the sizes off a batch, whose rows are sorted."""
        counts = torch.bincount(batch.rows, minlength=len(batch))
        first = counts.cumsum(0) - counts
        number = torch.arange(len(batch.rows), device=batch.rows.device)
        return SentenceRows(len(batch), batch.input_ids.shape[1], batch.rows, number - first[batch.rows])

    def on(self, device: torch.device) -> "SentenceRows":
        """The same for arrays on another device."""
        if self.sentence.device == device:
            return self
        return replace(self, sentence=self.sentence.to(device), place=self.place.to(device))

    def as_looked_up(self, words: Int[Tensor, "n S"], lookups: Sequence[Tensor]) -> "SentenceRows":
        """For a model that pads its words further, or has positions first, as its `lookups` show.

        >>> words = torch.tensor([[5, 6], [7, 8], [9, 5]])
        >>> rows = SentenceRows(3, 2, torch.arange(3), torch.zeros(3).long())
        >>> rows.as_looked_up(words, [torch.nn.functional.pad(words, (0, 2))]).positions
        4
        >>> rows.as_looked_up(words, [words.T]).positions_first
        True
        """
        n, width = words.shape
        if n == 1:
            return self
        as_given = any(each.shape == words.shape for each in lookups)
        rows = self
        for each in lookups:
            for found, first in ((each, False), (each.mT, True)) if each.ndim == 2 else ():
                padded = found.shape[1]
                fits = found.shape[0] == n and padded != n and padded >= width + as_given
                if fits and (_has_no_values(found) or torch.equal(found[:, :width], words.to(found.device))):
                    if not as_given:
                        return replace(self, positions=padded, positions_first=first)
                    rows = rows if first else rows.also_of_width(padded)
        return rows

    def also_of_width(self, width: int) -> "SentenceRows":
        """Where the number of sentences cannot be taken for it, nor it for that of rows summed over.

        >>> rows = SentenceRows(3, 2, torch.arange(3), torch.zeros(3).long())
        >>> rows.also_of_width(4).also_of_width(3).widths
        (2, 4)
        """
        if width in (1, self.sentences, *self.widths):
            return self
        return replace(self, other_widths=(*self.other_widths, width))

    def routed(self, words: Int[Tensor, " k"]) -> "SentenceRows":
        """For arrays with one row for each of these words, in any order; word s of sentence i is i S + s.

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
        return replace(self, positions=0, other_widths=(), sentence=sentence, place=place)

    def are_words(self, shape: tuple[int, ...]) -> bool:
        """Whether an array with these leading dimensions has an entry for each position of each sentence."""
        sizes = [(self.sentences, width) for width in self.widths]
        return shape[:2] in ([size[::-1] for size in sizes] if self.positions_first else sizes)

    def by_sentence(self, array: Float[Tensor, "... d"], shape: tuple[int, ...]) -> Tensor | None:
        """[n, T, d]: the array's rows, sentence by sentence, padded with zeros.

        `shape` is the leading dimensions before anything flattened them. Recognised are [n, ..., S, ...] and
        [S, n, ...] for any of the `widths` S, and one row per prediction, [m] or [m, 1]. None for any other
        array, which the sentences may share.
        """
        n, m, d = self.sentences, len(self.sentence), array.shape[-1]
        if n == 1:
            return array.reshape(1, -1, d)
        if shape[:1] == (n,) and self._have_words(shape[1:]):
            return array.reshape(n, -1, d)
        if shape[1:2] == (n,) and shape[0] in self.widths:
            return array.reshape(shape[0], n, -1, d).transpose(0, 1).flatten(1, 2)
        return self._predictions(array.reshape(m, d)) if shape in ((m,), (m, 1)) else None

    def _have_words(self, further: tuple[int, ...]) -> bool:
        """Whether dimensions behind one as long as there are sentences are those of a sentence's rows.

        In [n, n, S] either of the first two may be that of the sentences, the other that of the heads.
        """
        if further[:1] == (self.sentences,) and self.sentences not in self.widths:
            return False
        return not set(self.widths).isdisjoint(further)

    def _predictions(self, array: Float[Tensor, "m d"]) -> Float[Tensor, "n M d"]:
        most = int(self.place.max()) + 1 if len(array) else 1  # no word may be sent to an expert
        place = most * self.sentence + self.place
        if most * self.sentences == len(array) and bool((place[1:] > place[:-1]).all()):
            return array.view(self.sentences, most, -1)
        padded = array.new_zeros(self.sentences, most, array.shape[1])
        padded[self.sentence, self.place] = array
        return padded


def _has_no_values(tensor: Tensor) -> bool:
    """Whether it is without storage, as where costs are foreseen."""
    return tensor.is_meta or type(tensor) is not Tensor


def with_filling(
    rows: SentenceRows, children: Mapping[Node, Sequence[Node]], lookups: Sequence[Node]
) -> SentenceRows:
    """With the widths to which each sentence's rows [n, S, d] are filled up, by zeros or by other rows.

    LED appends the embedding of padding; Pegasus-X has zeros behind its words, and global tokens, which are
    looked up for each sentence alike. `children` are those of the nodes of a graph, in topological order,
    `lookups` the nodes that look up embeddings.
    """
    if rows.sentences == 1:
        return rows
    for node in lookups:
        if _is_for_each_sentence(node, rows.sentences):
            rows = rows.also_of_width(node._saved_indices.shape[1])
    for node, of_node in children.items():
        if node.name() not in ("ConstantPadNdBackward0", "CatBackward0") or of_node[0] is None:
            continue
        before, after = (each._input_metadata[0].shape for each in (of_node[0], node))
        if len(before) == 3 and before[0] == rows.sentences == after[0] and before[1] in rows.widths:
            rows = rows.also_of_width(after[1])
    return rows


def _is_for_each_sentence(lookup: Node, sentences: int) -> bool:
    """Whether [n, k] are looked up that are repeated for each sentence, or nothing but padding."""
    ids = lookup._saved_indices
    if ids.ndim != 2 or len(ids) != sentences:
        return False
    if ids.stride(0) == 0:
        return True
    return not _has_no_values(ids) and bool((ids == lookup._saved_padding_idx).all())


def before_flattening(operation: Node, operand: int, flat: int, rows: SentenceRows) -> tuple[int, ...]:
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
    if any(map(_has_no_values, chosen)):
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


def words_read(operation: Node, rows: SentenceRows) -> Int[Tensor, " k"] | None:
    """The index i S + s of the word from which each row of the first result of an operation is computed.

    Known if words were selected by index from all [n S, d] of them and what followed acted row by row or
    sliced the rows; None otherwise, and if nothing was selected.
    """
    return _words_read(operation, 0, rows, _FARTHEST, set())


def _words_read(
    node: Node | None, result: int, rows: SentenceRows, left: int, tried: set[Node]
) -> Int[Tensor, " k"] | None:
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
