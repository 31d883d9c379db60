"""Reads a model's files: quietly, in one sentence where that fails, and their weights without the model.

A model that its configuration makes far larger than its weights is refused before anything is allocated.
"""

import json
import pickle
import struct
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from logging import ERROR, disable, root
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from transformers.activations import ACT2FN
from transformers.utils import logging

from isoloss.device import is_out_of_memory
from isoloss.errors import BadInput, IsolossError, is_failure, raised_as, reason_of
from isoloss.models.names import (
    out_of_range,
    read_configuration,
    refuse_irregular,
)
from isoloss.results.checkpoint import refuse_damaged


def refusing(what: str, name: str) -> AbstractContextManager[None]:
    """Turn whatever is raised while `what` is read from `name` into a one-sentence BadInput.

    `transformers`, torch and `tokenizers` check little of a file before they use it, so that a wrong value
    surfaces as an exception of any kind, from anywhere.
    """
    return raised_as(lambda error: BadInput(_sentence(what, name, error)))


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


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress what `transformers` and torch print while loading; what fails is raised as well."""
    bars, disabled = logging.is_progress_bar_enabled(), root.manager.disable
    logging.disable_progress_bar()
    if disabled < ERROR:  # within another of these it takes time alone
        disable(ERROR)  # of every logger, also of libraries that are imported on the way
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if disabled < ERROR:
            disable(disabled)
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


_STORED = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
_STORED |= {str(kind).removeprefix("torch."): kind for kind in _STORED.values()}
"""Floating-point types by their names in safetensors, and in torch."""

_SAVED = "save a model's state_dict there, whose names are words: torch.save(model.state_dict(), path)"
HALVES = (torch.bfloat16, torch.float16)


def weight_shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the folder's weights, from safetensors or else torch's .bin files.

    Raises BadInput if a .bin file wraps the weights in another structure, and whatever torch and safetensors
    raise for a damaged file.
    """
    held = _safetensors(folder)
    for path in [] if held else _torch_paths(folder):
        for name, value in held_in(path, "meta").items():
            if isinstance(value, Mapping):
                raise BadInput(
                    f"{path} holds a state of training, not weights alone; save what it has under {name!r} "
                    f"in its place: torch.save(torch.load(path)[{name!r}], path)"
                )
    return {name: shape for name, (_, shape) in (held or _torch_files(folder)).items()}


def missing_parts(folder: Path) -> tuple[int, int]:
    """How many files of weights the folder's index names but the folder lacks, and how many it names; or 0.

    Raises BadInput for an index that is none.
    """
    for path in sorted(folder.glob("*.index.json")):
        with refusing("index of weights", str(path)):
            named = set(json.loads(path.read_text("utf-8"))["weight_map"].values())
            return sum(not (folder / each).is_file() for each in named), len(named)
    return 0, 0


def stored_elements(folder: Path) -> dict[torch.dtype, int]:
    """How many numbers of each floating-point type the safetensors hold, or else torch's .bin files."""
    refuse_irregular(folder)
    held = _safetensors(folder)
    if not held:
        with suppress(Exception):  # what is wrong with it is said where the model is read
            held = _torch_files(folder)
    found: Counter[torch.dtype] = Counter()
    for stored_as, shape in held.values():
        if stored_as in _STORED:
            found[_STORED[stored_as]] += prod(shape)
    return dict(found)


def refuse_whole_numbers(folder: Path, model: nn.Module) -> None:
    """Raise BadInput for a weight that is stored in whole or complex numbers, which are cast when read."""
    held = _safetensors(folder) or _torch_files(folder)
    for name, parameter in model.named_parameters():
        # A body alone is stored without the name that a model with a head has for it, and the reverse.
        body = getattr(model, "base_model_prefix", "")
        names = name, name.removeprefix(f"{body}."), f"{body}.{name}"
        stored_as = next((held[each][0] for each in names if each in held), "F32")
        if parameter.is_floating_point() and not stored_as.upper().startswith(("F", "BF")):
            raise BadInput(
                f"{name} is stored as {stored_as} in {folder}, and the model computes in floating-point "
                "numbers; if it is quantised, measure the model that it was made from"
            )


def _safetensors(folder: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The type, by its name in safetensors, and the shape of each weight in the folder's files."""
    held: dict[str, tuple[str, tuple[int, ...]]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with refusing("file of weights", str(path)), safe_open(path, framework="pt") as weights:
                for name in weights.keys():  # noqa: SIM118
                    part = weights.get_slice(name)
                    held[name] = part.get_dtype(), tuple(part.get_shape())
        except BadInput:
            refuse_damaged(folder)  # of a checkpoint of ours it is known what was written
            raise
    return held


def _torch_files(folder: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The same of torch's .bin files, with the names that types have in torch; raises as `held_in` does."""
    return {
        name: (str(value.dtype).removeprefix("torch."), tuple(value.shape))
        for path in _torch_paths(folder)
        for name, value in held_in(path, "meta").items()
        if isinstance(value, torch.Tensor)
    }


def _torch_paths(folder: Path) -> list[Path]:
    return sorted(folder.glob("pytorch_model*.bin"))


def held_in(path: Path, device: str) -> dict[str, Any]:
    """What one of torch's .bin files holds, without unpickling anything else than tensors.

    Raises BadInput if that is not a name for each of them, and whatever torch raises for a damaged file.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Detected pickle protocol")  # an unreadable file is refused
        try:
            held = torch.load(path, map_location=device, weights_only=True)
        except (LookupError, ValueError, AssertionError, struct.error) as error:  # bytes that are no pickle
            raise pickle.UnpicklingError from error
    if not isinstance(held, Mapping):
        raise BadInput(f"{path} holds a {type(held).__name__}, not weights by name; {_SAVED}")
    other = [name for name in held if not isinstance(name, str)]
    if other:
        raise BadInput(f"{path} names a weight {other[0]!r}, not with a word; {_SAVED}")
    return dict(held)


@contextmanager
def explained_by_weights(folder: Path) -> Iterator[None]:
    """If what is within fails because of what an index or a .bin file of the folder holds, raise a BadInput.

    They are not looked at otherwise: `transformers` takes them as they come, and fails far from the cause.
    """
    try:
        yield
    except IsolossError:
        raise
    except BaseException as error:
        if is_failure(error):
            missing_parts(folder)
            weight_shapes(folder)
        raise
