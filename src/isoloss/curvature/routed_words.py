"""Which words the rows of a matrix are of, where a model has picked words out, as for its experts."""

import torch
from jaxtyping import Int
from torch import Tensor

from isoloss.curvature.autograd_graph import Node
from isoloss.curvature.sentence_rows import SentenceRows

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
