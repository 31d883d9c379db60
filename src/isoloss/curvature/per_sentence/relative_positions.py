"""Biases for pairs of positions, looked up for all sentences at once and added to attention scores (T5)."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from isoloss.curvature.per_sentence.factors import Lookups
from isoloss.curvature.per_sentence.sentence_rows import SentenceRows

Node = Any
Parents = Any
"""Of each node, those that read its results, each with the place of that operand among its own."""


@dataclass(frozen=True)
class Broadcast:
    """Where biases [1, h, q, k] become those of each sentence: `node` receives a gradient [n, h, q, k].

    `read`, where there is a mask before that or there, says for which pairs the biases are read.
    """

    node: Node
    read: Bool[Tensor, "..."] | None = None


def broadcasts(lookup: Node, parents: Parents, rows: SentenceRows) -> list[Broadcast] | None:
    """Every place at which the biases that `lookup` looked up, [q, k, h], become those of each sentence.

    There may be one for each layer. None if they are used in another way.
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
    return _above(Broadcast(of_heads), parents, (rows.sentences, heads, *ids.shape))


def _above(shared: Broadcast, parents: Parents, whole: tuple[int, ...]) -> list[Broadcast] | None:
    found = []
    for node, operand in parents[shared.node]:
        read = shared.read
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
        above = Broadcast(node, read)
        if _result(node) == whole:
            found.append(above)
        elif _result(node) == (1, *whole[1:]) and (further := _above(above, parents, whole)) is not None:
            found += further
        else:
            return None
    return found


def bias_lookups(lookup: Node, read: Tensor | None, gradient: Float[Tensor, "n h q k"]) -> Lookups:
    """The factors of the table's per-sentence gradients, from the gradient that reaches a `Broadcast`.

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
