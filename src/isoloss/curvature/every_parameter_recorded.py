"""A forward pass of whose every parameter autograd takes note."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


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
