"""Reading a model without disturbing it: dropout off and memory bounded, everything left as found."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

FORWARD_MEMORY_BYTES = 1 << 26
"""Default budget for what a forward pass without gradients holds at once: 64 MiB, which suits caches too."""

REAL_TEXT_MEMORY_BYTES = 1 << 28
"""The same for real text, 256 MiB: its vocabularies have tens of thousands of tokens, and 64 MiB would hold
the scores of a sequence or two."""


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Switch every module to evaluation, and back to the mode each one had, also after an exception.

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
    """Where the model's parameters are; the CPU for a model without any.

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
