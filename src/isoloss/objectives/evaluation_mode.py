"""Evaluates a model without side effects: no dropout, bounded memory, temporary changes of weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

FORWARD_MEMORY_BYTES = 1 << 26
"""Default budget for what a forward pass without gradients holds at once: 64 MiB, which suits caches too."""

REAL_TEXT_MEMORY_BYTES = 1 << 28
"""The same for real text, 256 MiB: its vocabularies have tens of thousands of tokens, and 64 MiB would hold
the scores of a sequence or two."""


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Switch every module to evaluation mode, and back to its previous mode, even after an exception.

    >>> model = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    >>> with evaluation_mode(model):
    ...     print([module.training for module in model.modules()])
    [False, False, False]
    >>> [module.training for module in model.modules()]
    [True, True, False]
    """
    found = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in found:
            module.training = training


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's parameters; the CPU for a model without any.

    >>> device_of(nn.Linear(2, 2)), device_of(nn.Identity())
    (device(type='cpu'), device(type='cpu'))
    """
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def rows_at_once(model: nn.Module, tokens: int, memory_bytes: int) -> int:
    """How many rows of `tokens` tokens a forward pass without gradients may take in `memory_bytes`.

    Counts eight arrays as wide as the model's widest matrix at every token (the widest layer, or the
    scores of the vocabulary), which is generous for a transformer; at least one row.

    >>> rows_at_once(nn.Linear(64, 256), tokens=9, memory_bytes=1 << 20)
    14
    """
    widest = max((max(p.shape) for p in model.parameters() if p.ndim > 1), default=1)
    size = max((p.element_size() for p in model.parameters()), default=4)
    return max(1, memory_bytes // (8 * widest * size * tokens))


@contextmanager
def displaced(weights: list[Tensor], by: list[Tensor], times: float = 1.0) -> Iterator[None]:
    """Add `times` · `by` to the weights in place while the context is open; keeps a copy of them.

    The copy is restored, because subtracting would leave rounding errors.

    >>> weight = torch.tensor([0.1])
    >>> with displaced([weight], [torch.tensor([1.0])], times=2.0):
    ...     print(weight)
    tensor([2.1000])
    >>> weight
    tensor([0.1000])
    """
    with torch.no_grad():
        found = [weight.clone() for weight in weights]
        # One call for all, as in torch's own optimisers: for small weights, the calls dominate the cost.
        torch._foreach_add_(weights, by, alpha=times)
    try:
        yield
    finally:
        with torch.no_grad():
            torch._foreach_copy_(weights, found)
