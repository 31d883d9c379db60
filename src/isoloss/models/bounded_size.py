"""Refuses a model that its configuration makes far larger than its weights, before anything is allocated."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from isoloss.errors import BadInput

MEND = "mend config.json, or take the weights that belong to it"
"""Advice where a folder's weights are of another size than its configuration."""

_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")
_ELEMENTS_A_BYTE = 4
"""More elements than a file has bytes are in quantised and tied weights, at most four times as many."""
_FREE_ELEMENTS = 1 << 28
"""What any model may have beside its weights, such as masks and positions that it computes."""
_TENSORS_A_TENSOR, _FREE_TENSORS = 16, 1000
"""A model may split what is stored in one, such as queries, keys and values, and has buffers of its own."""
_MOST_TENSORS = 100_000
"""If the files do not say; the largest published models have half as many, with every expert on its own."""


def refuse_irregular(folder: Path) -> None:
    """Raise BadInput for a device or a pipe among a model's files, which would be read without end.

    >>> import os, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> os.mkfifo(folder / "model.safetensors")
    >>> refuse_irregular(folder)
    Traceback (most recent call last):
    isoloss.errors.BadInput: .../model.safetensors is a device or a pipe; put a file there
    """
    for path in sorted(folder.iterdir()):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise BadInput(f"{path} is a device or a pipe; put a file there")


@contextmanager
def sized_by_weights(folder: Path) -> Iterator[None]:
    """Within the block, building a module that the folder's weights could not fill raises BadInput.

    The parameters and buffers are counted as modules register them, which `transformers` does before it
    allocates any of them.
    """
    files = {path for pattern in _WEIGHTS for path in folder.glob(pattern)}
    most = _ELEMENTS_A_BYTE * sum(path.stat().st_size for path in files) + _FREE_ELEMENTS
    most_tensors = _most_tensors(files)
    elements = tensors = 0

    def count(_module: nn.Module, _name: str, tensor: Any) -> None:
        nonlocal elements, tensors
        if not isinstance(tensor, torch.Tensor):
            return
        elements += tensor.numel()
        tensors += 1
        if elements > most or tensors > most_tensors:
            raise BadInput(
                f"{folder / 'config.json'} asks for a model of more than {elements:,} numbers in {tensors:,} "
                f"tensors, which its files of weights cannot fill; {MEND}"
            )

    hooks = [
        register_module_parameter_registration_hook(count),
        register_module_buffer_registration_hook(count),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _most_tensors(files: Iterable[Path]) -> int:
    held = 0
    for path in files:
        if path.suffix != ".safetensors":
            return _MOST_TENSORS
        with safe_open(path, framework="pt") as weights:
            held += len(weights.keys())
    return _TENSORS_A_TENSOR * held + _FREE_TENSORS
