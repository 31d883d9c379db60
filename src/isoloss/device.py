"""The device for computation, its out-of-memory errors, and denormal numbers on it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from isoloss.errors import BadInput


def usable_device(device: str) -> torch.device:
    """The device of that name. Raises BadInput if this machine cannot use it."""
    try:
        number = torch.zeros(1, device=device)
        number.item()  # "meta" is a device too, but one that stores no numbers
        return number.device  # with its index, if there are several of a kind
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        if reason.startswith("Expected one of"):  # and some twenty names follow, most of which are of no use
            reason = "torch knows no device of that name"
        raise BadInput(f"the device '{device}' cannot be used ({reason}); choose cpu or cuda") from error


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch's error says that memory is exhausted; on a CPU its type does not tell."""
    of_a_processor = ("can't allocate memory", "not enough memory")
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in of_a_processor)


@contextmanager
def denormals_flushed() -> Iterator[None]:
    """Within the block, this thread flushes numbers below 1e-38 (float32; 2e-308 in float64) to zero.

    The attention of a model that has been trained for long is so sharp that most of its gradients are
    denormal, and a backward pass takes two to three times as long with them. They are negligible beside the
    numbers to which they are added. Processors that cannot flush them keep them.

    >>> with denormals_flushed():
    ...     float(torch.tensor(1e-30) * 1e-10)
    0.0
    """
    before = _are_flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _are_flushed() -> bool:
    return float(torch.tensor(1e-30) * 1e-10) == 0.0
