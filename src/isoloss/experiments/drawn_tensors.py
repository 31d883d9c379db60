"""Dataclasses of tensors as tensors by name, and back: how what was drawn is kept."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar, get_type_hints

from torch import Tensor

from isoloss.checked_files import Tensors

Drawn = TypeVar("Drawn")


def tensors_of(drawn: Any) -> Tensors:
    """The tensors of a dataclass whose fields are tensors or such dataclasses, by their dotted paths.

    >>> from isoloss.languages.sentences import Sentences
    >>> sorted(tensors_of(Sentences.from_lists([[0, 1]])))
    ['ids', 'lengths']
    """
    found: Tensors = {}
    for field in dataclasses.fields(drawn):
        value = getattr(drawn, field.name)
        if isinstance(value, Tensor):
            found[field.name] = value
        else:
            found |= below(field.name, value)
    return found


def below(name: str, drawn: Any) -> Tensors:
    """The tensors of such a dataclass, by paths below `name`; `within` finds them again."""
    return {f"{name}.{path}": tensor for path, tensor in tensors_of(drawn).items()}


def drawn_of(kind: type[Drawn], tensors: Mapping[str, Tensor]) -> Drawn:
    """The dataclass of that kind that `tensors_of` took apart.

    >>> from isoloss.languages.sentences import Sentences
    >>> drawn_of(Sentences, tensors_of(Sentences.from_lists([[0, 1], [2]]))).lengths
    tensor([2, 1])
    """
    values: dict[str, Any] = {}
    for name, of_field in get_type_hints(kind).items():
        nested = dataclasses.is_dataclass(of_field)
        values[name] = drawn_of(of_field, within(name, tensors)) if nested else tensors[name]
    return kind(**values)


def within(name: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """The tensors below a path, by the rest of their paths."""
    below = f"{name}."
    return {path.removeprefix(below): tensors[path] for path in tensors if path.startswith(below)}
