"""Which rows of a model's arrays are a sentence's, and biases by pairs of positions, shared by all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from isoloss.curvature.per_sentence.factors import Lookups
from isoloss.objectives.batch import Batch


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
                if fits and (has_no_values(found) or torch.equal(found[:, :width], words.to(found.device))):
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


def has_no_values(tensor: Tensor) -> bool:
    """Whether it is without storage, as where costs are foreseen."""
    return tensor.is_meta or type(tensor) is not Tensor


def with_filling(
    rows: SentenceRows, children: Mapping[Any, Sequence[Any]], lookups: Sequence[Any]
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


def _is_for_each_sentence(lookup: Any, sentences: int) -> bool:
    """Whether [n, k] are looked up that are repeated for each sentence, or nothing but padding."""
    ids = lookup._saved_indices
    if ids.ndim != 2 or len(ids) != sentences:
        return False
    if ids.stride(0) == 0:
        return True
    return not has_no_values(ids) and bool((ids == lookup._saved_padding_idx).all())


Node = Any
"""A `torch.autograd.graph.Node`; what it saved are attributes that its type does not declare."""
Parents = Any
"""Of each node, those that read its results, each with the place of that operand among its own."""


def broadcasts(
    lookup: Node, parents: Parents, rows: SentenceRows
) -> list[tuple[Node, Bool[Tensor, "..."] | None]] | None:
    """Every node at which the biases that `lookup` looked up, [q, k, h], become those of each sentence.

    There may be one for each layer, which receives a gradient [n, h, q, k]; beside it, where there is a mask
    before that or there, for which pairs the biases are read. None if they are used in another way.
    """
    ids, (entries, heads) = lookup._saved_indices, _table(lookup)
    has_padding = lookup._saved_padding_idx < entries
    if ids.ndim != 2 or not set(ids.shape) <= set(rows.widths) or has_padding:
        return None
    permuted = _only_parent(lookup, parents, "PermuteBackward0")
    if permuted is None or [dim % 2**64 for dim in permuted._saved_dims] != [2, 0, 1]:
        return None
    of_heads = _only_parent(permuted, parents, "UnsqueezeBackward0")
    if of_heads is None or _result(of_heads) != (1, heads, *ids.shape):
        return None
    return _above(of_heads, None, parents, (rows.sentences, heads, *ids.shape))


def _above(
    shared: Node, already_read: Tensor | None, parents: Parents, whole: tuple[int, ...]
) -> list[tuple[Node, Tensor | None]] | None:
    found = []
    for node, operand in parents[shared]:
        read = already_read
        match node.name():
            case "AddBackward0" if node._saved_alpha == 1:
                pass
            case "ExpandBackward0" | "CloneBackward0":
                pass
            case "WhereBackward0":
                chosen = node._saved_condition if operand == 0 else ~node._saved_condition
                read = chosen if read is None else chosen & read
            case _:
                return None
        if _result(node) == whole:
            found.append((node, read))
        elif _result(node) == (1, *whole[1:]) and (further := _above(node, read, parents, whole)) is not None:
            found += further
        else:
            return None
    return found


def bias_lookups(lookup: Node, read: Tensor | None, gradient: Float[Tensor, "n h q k"]) -> Lookups:
    """The factors of the table's per-sentence gradients, from the gradient that reaches one of `broadcasts`.

    They have a row for each entry of the table, of which there are far fewer than pairs.
    """
    gradient = gradient if read is None else gradient * read
    entries, heads = _table(lookup)
    of_pairs = gradient.permute(0, 2, 3, 1).flatten(1, 2)
    of_pairs = of_pairs.to(torch.promote_types(of_pairs.dtype, torch.float32))
    ids: Int[Tensor, " p"] = lookup._saved_indices.flatten()
    summed = of_pairs.new_zeros(len(of_pairs), entries, heads).index_add_(1, ids, of_pairs)
    return Lookups(torch.arange(entries, device=ids.device).expand(len(of_pairs), entries), summed)


def _only_parent(node: Node, parents: Parents, name: str) -> Node | None:
    above = parents[node]
    return above[0][0] if len(above) == 1 and above[0][0].name() == name else None


def _result(node: Node) -> tuple[int, ...]:
    return tuple(node._input_metadata[0].shape)


def _table(lookup: Node) -> tuple[int, int]:
    """How many entries the table has, and numbers in each."""
    return int(lookup._saved_weight_sym_argsize_0), _result(lookup)[-1]
