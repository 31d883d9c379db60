"""What the files of weights in a model's folder hold, without the model: names, shapes, types, and sizes."""

import json
import pickle
import struct
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from isoloss.errors import BadInput, IsolossError, is_failure
from isoloss.models.hub import refusing
from isoloss.models.names import base_of_adapter, refuse_irregular
from isoloss.results.checkpoint import refuse_damaged

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


def holds_weights(name: str) -> bool:
    """Whether the folder holds a file of weights, or it is no folder, but a name on a hub.

    Raises Damaged if a checkpoint of ours has lost its own.

    >>> holds_weights("gpt2")
    True
    """
    folder = Path(name)
    if not folder.is_dir() or any(any(folder.glob(each)) for each in ("*.safetensors", "*.bin", "*.gguf")):
        return True
    refuse_damaged(folder)
    return False


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


def precision_that_fits(names: Sequence[str], free: int, beside: int) -> torch.dtype:
    """float32, unless the models' weights in it and `beside` bytes exceed the `free` ones.

    Then the half precision that most of the weights are stored in, if they are stored in one: sums over
    products are in float32 also then. Of an adapter the weights are its base model's. What a hub's names
    stand for is not known before it is fetched.
    """
    bases = [base_of_adapter(name) or name for name in names]
    held = [stored_elements(Path(name)) for name in bases if Path(name).is_dir()]
    elements = sum(sum(of_model.values()) for of_model in held)
    halves = {each for of_model in held for each in of_model if each in HALVES}
    if not halves or 4 * elements + beside <= free:
        return torch.float32
    return max(halves, key=lambda each: sum(of_model.get(each, 0) for of_model in held))
