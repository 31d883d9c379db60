"""Digests of a model: of its weights, and of what its network computes from them."""

import hashlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

from torch import nn
from transformers import PreTrainedModel

LIBRARIES = ("torch", "transformers", "isoloss")
"""Whose modules are told by their names and settings; of others the code is looked at too."""
OF_NO_NETWORK = ("architectures", "dtype", "torch_dtype", "transformers_version", "language_words")
"""Settings of a configuration that tell how it was written, and of which tokens a language is."""

KEPT_BY_TORCH = frozenset(vars(nn.Module()))
"""Attributes of every module: its weights, buffers and hooks, and whether it is trained."""


def digest_of_weights(module: nn.Module) -> str:
    """A hexadecimal digest of the names and values of a module's weights, and of its buffers."""
    digest = hashlib.sha256()
    for name, weight in module.state_dict().items():
        digest.update(name.encode())
        digest.update(weight.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()


def digest_of_network(module: nn.Module) -> str:
    """A hexadecimal digest of what a module computes from its weights: its layers, settings and code.

    Lists and the like that a module of one's own keeps are part of it. Functions that its classes' methods
    call elsewhere are not looked at, nor are tensors that are not saved with its weights, as caches are not.

    >>> digest_of_network(nn.Sequential(nn.ReLU())) == digest_of_network(nn.Sequential(nn.Tanh()))
    False
    >>> digest_of_network(nn.Dropout(0.1)) == digest_of_network(nn.Dropout(0.1))
    True
    """
    told = [repr(module)]
    if isinstance(module, PreTrainedModel):
        settings = module.config.to_dict()
        told += [f"{name}: {settings[name]!r}" for name in sorted(settings) if _is_told(name)]
    kinds = {type(each): None for each in module.modules()}
    told += [setting for each in module.modules() for setting in _settings(each)]
    told += [_code(each) for kind in kinds for base in kind.__mro__ for each in _own_methods(base)]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _settings(module: nn.Module) -> Iterator[str]:
    """What a module keeps beside its weights, of libraries' modules numbers, texts and functions.

    Those of transformers are in their configuration.
    """
    library = _library(type(module))
    if library == "transformers":
        return
    is_own = library not in LIBRARIES
    for name, value in sorted(vars(module).items()):
        if name in KEPT_BY_TORCH or (not is_own and name.startswith("_")):
            continue
        is_told = is_own or isinstance(value, int | float | str) or callable(value)
        if is_told and (told := _told(value)):
            yield f"{name}: {told}"


def _told(value: Any) -> str:
    """Containers of numbers, texts and functions as text, the same in every process; empty for all else."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Mapping):
        told = (f"{_told(key)}: {_told(each)}" for key, each in value.items())
        return f"{{{', '.join(told)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_told, value))}]"
    if isinstance(value, int | float | str):
        return repr(value)
    return _code(value) if callable(value) and not isinstance(value, nn.Module) else ""


def _is_told(name: str) -> bool:
    return name not in OF_NO_NETWORK and not name.startswith("_")


def _own_methods(kind: type) -> list[FunctionType]:
    if kind is object or _library(kind) in LIBRARIES:
        return []
    return [each for each in vars(kind).values() if isinstance(each, FunctionType)]


def _library(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _code(function: Any) -> str:
    """The source of a function; where there is none, what Python made of it, or its name."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        name = getattr(function, "__qualname__", type(function).__name__)
        return name if code is None else repr((code.co_code, code.co_names, code.co_varnames))
