"""The graph that autograd recorded, as something to walk over."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Node = Any
"""A `torch.autograd.graph.Node`; what it saved are attributes that its type does not declare."""


@dataclass(frozen=True)
class AutogradGraph:
    """Every node that a tensor was computed by: each with its children, and after them.

    `parents` has the nodes that read a node's results, each with the place of that edge among the parent's
    children. `leaf` finds the node in which a parameter's gradient would be gathered.
    """

    children: dict[Node, list[Node | None]]
    parents: dict[Node, list[tuple[Node, int]]]
    leaf: dict[Tensor, Node]

    @staticmethod
    def below(tensor: Tensor) -> "AutogradGraph":
        """Walk down from `tensor`, which requires a gradient."""
        children: dict[Node, list[Node | None]] = {}
        parents: dict[Node, list[tuple[Node, int]]] = {}
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
        """The nodes whose results depend on those of a node in `starts` below them.

        >>> import torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> y = x * 2
        >>> graph = AutogradGraph.below((y + 1).sum())
        >>> sorted(node.name() for node in graph.above({y.grad_fn}))
        ['AddBackward0', 'SumBackward0']
        """
        found: set[Node] = set()
        for node, children in self.children.items():
            if any(child in starts or child in found for child in children):
                found.add(node)
        return found


@contextmanager
def every_parameter_recorded(model: nn.Module) -> Iterator[None]:
    """Let autograd record frozen parameters too, and find them frozen again, also after an exception.

    What is computed from a sentence's words is then seen in the graph, also where embeddings are frozen.

    >>> layer = nn.Linear(2, 2).requires_grad_(False)
    >>> with every_parameter_recorded(layer):
    ...     print(layer(torch.ones(2)).requires_grad)
    True
    >>> layer.weight.requires_grad
    False
    """
    found = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    try:
        for parameter, _ in found:
            parameter.requires_grad_(parameter.is_floating_point())
        with torch.enable_grad():
            yield
    finally:
        for parameter, required in found:
            parameter.requires_grad_(required)
