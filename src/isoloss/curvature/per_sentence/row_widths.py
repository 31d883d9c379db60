"""How many rows a sentence has in a model that fills them up within."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from isoloss.curvature.per_sentence.factors import SentenceRows


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
    has_values = type(ids) is Tensor and not ids.is_meta
    return has_values and bool((ids == lookup._saved_padding_idx).all())
