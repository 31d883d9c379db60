"""Reading from folders and the hub by `transformers`: quietly, and with one sentence where that fails.

A model that its configuration makes far larger than its weights is refused before anything is allocated.
"""

import json
import os
import pickle
import warnings
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from logging import ERROR, disable, root
from pathlib import Path, PurePath
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from transformers import AutoConfig
from transformers.activations import ACT2FN
from transformers.utils import logging

from isoloss.device import is_out_of_memory
from isoloss.errors import BadInput, reason_of, told_by
from isoloss.models.hub_names import hub_is_reachable, out_of_range, read_configuration, unreachable


def refusing(what: str, name: str) -> AbstractContextManager[None]:
    """Turn whatever is raised while `what` is read from `name` into a one-sentence BadInput.

    `transformers`, torch and `tokenizers` check little of a file before they use it, so that a wrong value
    surfaces as an exception of any kind, from anywhere.
    """
    return told_by(lambda error: BadInput(_sentence(what, name, error)))


def _sentence(what: str, name: str, error: BaseException) -> str:
    if "trust_remote_code" in str(error):
        return (
            f"{name} comes with code of its own, which isoloss does not run; convert it to a model that "
            "transformers knows"
        )
    reason = reason_of(error)
    mended = "give a folder that holds one, or a hub's name where the hub can be reached"
    if isinstance(error, pickle.UnpicklingError):
        reason = "its .bin file is damaged, or holds more than weights, which torch does not unpickle"
        mended = "save it again with save_pretrained, which writes safetensors"
    elif isinstance(error, (SafetensorError, EOFError)):
        reason, mended = f"a file of weights is damaged ({reason})", "fetch or copy the folder again"
    elif isinstance(error, FileNotFoundError):
        mended = "fetch or copy that file too"
    elif isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and is_out_of_memory(error)):
        reason, mended = "it takes more memory than there is", "take a machine with more, or mend config.json"
    elif Path(name).exists() and not isinstance(error, OSError):
        mended = "mend it" if Path(name).is_file() else "mend its files, or fetch or copy it again"
        if "model" in what and (wrong := _out_of_range_in(Path(name))) is not None:
            reason, mended = wrong, "mend it"
    return f"no {what} can be read from {name}: {reason}; {mended}"


def _out_of_range_in(path: Path) -> str | None:
    """What is out of range in a configuration that could not be used, if that is in the folder or file."""
    folder = path if path.is_dir() else path.parent
    if not (path.is_dir() or path.name == "config.json") or not (folder / "config.json").is_file():
        return None
    content = read_configuration(folder)
    found, named = out_of_range(content), content.get("hidden_act")
    if found is None and isinstance(named, str) and named not in ACT2FN:
        found = f"hidden_act is {named!r}, which transformers does not know"
    return None if found is None else f"in its config.json {found}"


def refuse_unreachable_hub(name: str) -> None:
    """Fail at once, rather than after many retries, unless the model was downloaded before."""
    try:
        with quiet():
            AutoConfig.from_pretrained(name, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError):
        if not hub_is_reachable():
            raise unreachable(name) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress what `transformers` and torch print while loading; what fails is raised as well."""
    bars, level, disabled = logging.is_progress_bar_enabled(), logging.get_verbosity(), root.manager.disable
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    disable(ERROR)  # also of libraries that are imported on the way
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        disable(disabled)
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


MEND = "mend config.json, or take the weights that belong to it"
"""Advice where a folder's weights are of another size than its configuration."""

_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")
_ELEMENTS_A_BYTE = 4
"""More elements than a file has bytes are in quantised and tied weights, at most four times as many."""
_FREE_ELEMENTS = 1 << 28
"""What any model may have beside its weights, such as masks and positions that it computes."""
_TENSORS_A_TENSOR, _FREE_TENSORS = 16, 1000
"""A model may split what is stored in one, such as queries, keys and values, and has buffers of its own."""
_MOST_ELEMENTS = 1 << 43
"""Nine million millions; the largest published models have a few."""
_MOST_TENSORS = 100_000
"""If the files do not say; the largest published models have half as many, with every expert on its own."""


def refuse_irregular(folder: Path) -> None:
    """Raise BadInput for a device or a pipe among a model's files, read without end, or what may not be read.

    >>> import os, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> os.mkfifo(folder / "model.safetensors")
    >>> refuse_irregular(folder)
    Traceback (most recent call last):
    isoloss.errors.BadInput: .../model.safetensors is a device or a pipe; put a file there
    """
    for path in sorted(folder.iterdir()):
        _refuse_irregular_file(path)
    for index in sorted(folder.glob("*.index.json")):
        for name in _named_in(index):
            if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
                raise BadInput(
                    f"{index} names {name}, which is not in the folder; put it there, and name that"
                )
            _refuse_irregular_file(folder / name)


def _refuse_irregular_file(path: Path) -> None:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise BadInput(f"{path} is a device or a pipe; put a file there")
    if path.is_file() and not os.access(path, os.R_OK):  # which libraries call absent
        raise BadInput(f"{path} may not be read; mend its permissions")


def _named_in(index: Path) -> list[str]:
    """The files that an index of weights names; none of what is no index, which whoever reads it refuses."""
    try:
        content = json.loads(index.read_bytes())
    except (ValueError, RecursionError):
        return []
    named = content.get("weight_map") if isinstance(content, dict) else None
    files = named.values() if isinstance(named, dict) else ()
    return sorted({name for name in files if isinstance(name, str)})


@contextmanager
def sized_by_weights(folder: Path) -> Iterator[None]:
    """Within the block, building a module that the folder's weights could not fill raises BadInput.

    The parameters and buffers are counted as modules register them, which `transformers` does before it
    allocates any of them.
    """
    files = {path for pattern in _WEIGHTS for path in folder.glob(pattern)}
    most = _ELEMENTS_A_BYTE * sum(path.stat().st_size for path in files) + _FREE_ELEMENTS
    with _at_most(most, _most_tensors(files), folder, "its files of weights cannot fill"):
        yield


@contextmanager
def sized_as_published(folder: Path) -> Iterator[None]:
    """As `sized_by_weights`, for a configuration without weights: no larger than models that there are."""
    with _at_most(_MOST_ELEMENTS, _MOST_TENSORS, folder, "is more than any published model has"):
        yield


@contextmanager
def _at_most(most: int, most_tensors: int, folder: Path, why: str) -> Iterator[None]:
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
                f"tensors, which {why}; {MEND}"
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
