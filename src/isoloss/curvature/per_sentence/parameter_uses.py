"""The autograd graph of a batch, and the operations in it that use a parameter."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from jaxtyping import Bool, Int
from torch import Tensor

from isoloss.curvature.per_sentence.sentence_rows import Node, SentenceRows, with_filling

Parents = dict[Node, list[tuple[Node, int]]]
"""The nodes that read a node's results, each with the index of that edge among the parent's children."""


@dataclass(frozen=True)
class AutogradGraph:
    """All nodes from which a tensor was computed, with their children, in topological order.

    Children come before the nodes that read them.

    `leaf` finds the node that would accumulate a parameter's gradient.
    """

    children: dict[Node, list[Node | None]]
    parents: Parents
    leaf: dict[Tensor, Node]

    @staticmethod
    def below(tensor: Tensor) -> "AutogradGraph":
        """Walk down from `tensor`, which requires a gradient."""
        children: dict[Node, list[Node | None]] = {}
        parents: Parents = {}
        leaf: dict[Tensor, Node] = {}
        pending: list[tuple[Node, list[Node | None] | None]] = [(tensor.grad_fn, None)]
        while pending:
            node, of_node = pending.pop()
            if of_node is not None:
                children[node] = of_node
            elif node not in parents:
                parents[node] = []
                if hasattr(node, "variable"):
                    leaf[node.variable] = node
                of_node = [child for child, _ in node.next_functions]
                pending.append((node, of_node))
                pending.extend((child, None) for child in of_node if child is not None)
        for node, of_node in children.items():
            for place, child in enumerate(of_node):
                if child is not None:
                    parents[child].append((node, place))
        return AutogradGraph(children, parents, leaf)

    def above(self, starts: set[Node]) -> set[Node]:
        """The nodes whose results depend on those of a node in `starts` below them."""
        found: set[Node] = set()
        for node, children in self.children.items():
            if any(child in starts or child in found for child in children):
                found.add(node)
        return found


@dataclass(frozen=True)
class Use:
    """One operation that reads a parameter: its kind, and which operand the parameter is.

    "linear" is x W, or x Wᵀ where `is_transposed`; "embedding" W[ids]; "gain" w ∘ x, "layer norm" that with x
    normalised; "bias" x + b; "relative bias" W[ids] for pairs of positions, of those that are `read`.
    Per-sentence gradients are read off the gradient that arrives at `watched`: the operation, or, where its
    result is shared by all sentences (position embeddings), the sum that adds it to per-sentence values.
    `part` is the index of the matrix that is read where a parameter stacks several, as those of experts.
    """

    kind: Literal["linear", "embedding", "layer norm", "gain", "bias", "relative bias"]
    operation: Node
    operand: int
    watched: Node
    is_transposed: bool = False
    part: int | None = None
    read: Tensor | None = None


def method_of(uses: Sequence[Use]) -> str:
    """A readable description of how a parameter is used; "not used" if it is not."""
    kinds = {use.kind for use in uses}
    if kinds == {"linear", "embedding"}:
        return "tied embedding"
    return " and ".join(sorted(kinds)) or "not used"


@dataclass(frozen=True)
class ParameterUses:
    """Finds the uses of parameters in one graph.

    `of_words` are the nodes that differ between sentences, `of_picked` those above an operation that selects
    rows by index, as mixtures of experts do.
    """

    graph: AutogradGraph
    rows: SentenceRows
    of_words: set[Node]
    of_picked: set[Node]

    @staticmethod
    def within(graph: AutogradGraph, rows: SentenceRows, words: Int[Tensor, "n S"]) -> "ParameterUses":
        """A node differs between sentences if it is computed from an embedding of their own words."""
        embeddings = [node for node in graph.children if node.name() == "EmbeddingBackward0"]
        indices = [node._saved_indices for node in embeddings]
        rows = with_filling(rows.as_looked_up(words, indices), graph.children, embeddings)
        lookups = {node for node in embeddings if rows.are_words(node._saved_indices.shape)}
        picked = {
            node for node in graph.children if node.name() in ("IndexBackward0", "IndexSelectBackward0")
        }
        return ParameterUses(graph, rows, graph.above(lookups), graph.above(picked) if picked else picked)

    def of(self, parameter: Tensor) -> list[Use] | None:
        """Every use of `parameter`, empty if it has none; None if any is of an unknown kind.

        All paths from the parameter to the logits start at its leaf in the graph, whichever module uses it,
        so no use is missed.
        """
        uses = self._of(self.graph.leaf.get(parameter), parameter.ndim)
        known = [use for use in uses if use is not None]
        in_parts = {use.part is None for use in known}
        return known if len(known) == len(uses) and len(in_parts) < 2 else None

    def _of(self, node: Node, dimensions: int) -> list[Use | None]:
        uses: list[Use | None] = []
        for operation, operand in self._read_by(node, dimensions):
            if operation.name() == "SelectBackward0" and dimensions > 1 and operation._saved_dim == 0:
                part = _counted_from_the_start(operation._saved_index, operation._saved_self_sym_sizes[0])
                uses += [
                    None if use is None or use.part is not None else replace(use, part=part)
                    for use in self._of(operation, dimensions - 1)
                ]
            elif dimensions == 2 and _transposes(operation):
                uses += [_product(*parent, is_transposed=True) for parent in self.graph.parents[operation]]
            elif operation.name() == "EmbeddingBackward0":
                uses += self._lookup(operation)
            elif dimensions == 1:
                uses.append(_elementwise(operation, operand))
            else:
                uses.append(_product(operation, operand, is_transposed=False))
        return uses

    def _read_by(self, node: Node, dimensions: int) -> list[tuple[Node, int]]:
        """What reads a parameter, also a copy of other precision or on a device, or a vector plus a constant.

        Gemma's gains are 1 + w: the gradient of the sum is that of w.
        """
        found: list[tuple[Node, int]] = []
        for operation, operand in self.graph.parents.get(node, []):
            if _is_real_copy(operation) or (dimensions == 1 and self._adds_a_constant(operation)):
                found += self._read_by(operation, dimensions)
            else:
                found.append((operation, operand))
        return found

    def _adds_a_constant(self, operation: Node) -> bool:
        """Whether the node adds operands without a gradient to the only one that requires a gradient."""
        added = [child for child in self.graph.children[operation] if child is not None]
        if operation in self.of_words or len(added) != 1:
            return False
        return bool(operation.name() == "AddBackward0" and operation._saved_alpha == 1)

    def _lookup(self, operation: Node) -> list[Use | None]:
        if operation._saved_scale_grad_by_freq or operation._saved_sparse:
            return [None]
        shape = operation._saved_indices.shape
        if self.rows.sentences == 1 or self.rows.are_words(shape):
            return [Use("embedding", operation, 0, watched=operation)]
        of_pairs = _broadcasts(operation, self.graph.parents, self.rows)
        if of_pairs is not None:
            return [Use("relative bias", operation, 0, node, read=read) for node, read in of_pairs]
        shared = shape in [each for width in self.rows.widths for each in ((width,), (1, width))]
        watched = self._meets_the_words(operation) if shared else None
        return [None if watched is None else Use("embedding", operation, 0, watched)]

    def _meets_the_words(self, node: Node) -> Node | None:
        """The sum that adds something shared by all sentences to per-sentence values.

        A sum passes on the gradient that reaches it, but sums it over sentences for the shared operand.
        """
        while True:
            above = [parent for parent, _ in self.graph.parents[node]]
            if len(above) != 1 or above[0].name() != "AddBackward0" or above[0]._saved_alpha != 1:
                return None
            node = above[0]
            if node in self.of_words:
                return node


def _is_real_copy(operation: Node) -> bool:
    """Whether it copies to another precision or device; not to complex numbers, whose gradients are such."""
    return operation.name() == "ToCopyBackward0" and not operation._input_metadata[0].dtype.is_complex


def _counted_from_the_start(index: int, size: int) -> int:
    """An index into a stack; autograd shows an index -k, counted from the end, as 2^64 - k."""
    return index + size - (1 << 64) if index >= 1 << 63 else index % size


def _transposes(operation: Node) -> bool:
    """Whether a matrix is transposed: layers, `.T` and `.mT` are recorded under names of their own."""
    match operation.name():
        case "TBackward0":
            return True
        case "PermuteBackward0":
            return [dim % 2 for dim in operation._saved_dims] == [1, 0]  # -k is shown as 2^64 - k
        case "TransposeBackward0":
            return bool(operation._saved_dim0 % 2 != operation._saved_dim1 % 2)
    return False


def _product(operation: Node, operand: int, *, is_transposed: bool) -> Use | None:
    match operation.name(), operand:
        case "AddmmBackward0", 2:
            known = operation._saved_alpha == 1
        case "MmBackward0", 1:
            known = True
        case _:
            known = False
    return Use("linear", operation, operand, operation, is_transposed) if known else None


def _elementwise(operation: Node, operand: int) -> Use | None:
    match operation.name(), operand:
        case "NativeLayerNormBackward0", 1:
            return Use("layer norm", operation, operand, operation)
        case "MulBackward0", _:
            return Use("gain", operation, operand, operation)
        case "NativeLayerNormBackward0", 2:
            return Use("bias", operation, operand, operation)
        case "AddmmBackward0", 0 if operation._saved_beta == 1:
            return Use("bias", operation, operand, operation)
        case "AddBackward0", _ if operation._saved_alpha == 1:
            return Use("bias", operation, operand, operation)
    return None


def output_layer(logits: Tensor) -> Node | None:
    """The matrix product that computed the logits, row by row; None if they are computed in another way."""
    node: Node = logits.grad_fn
    while node.name() in ("ViewBackward0", "UnsafeViewBackward0", "ToCopyBackward0"):
        node = node.next_functions[0][0]
    match node.name():
        case "AddmmBackward0":
            rows = node._saved_mat1_sym_sizes[0]
        case "MmBackward0":
            rows = node._saved_self_sym_sizes[0]
        case _:
            return None
    return node if rows == len(logits) else None


def _broadcasts(
    lookup: Node, parents: Parents, rows: SentenceRows
) -> list[tuple[Node, Bool[Tensor, "..."] | None]] | None:
    """Every node at which the biases that `lookup` looked up, [q, k, h], become those of each sentence.

    There may be one for each layer, which receives a gradient [n, h, q, k]; beside it, where there is a mask
    before that or there, for which pairs the biases are read. None if they are used in another way.
    """
    ids, heads = lookup._saved_indices, _result(lookup)[-1]
    has_padding = lookup._saved_padding_idx < lookup._saved_weight_sym_argsize_0
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


def _only_parent(node: Node, parents: Parents, name: str) -> Node | None:
    above = parents[node]
    return above[0][0] if len(above) == 1 and above[0][0].name() == name else None


def _result(node: Node) -> tuple[int, ...]:
    return tuple(node._input_metadata[0].shape)
