"""Tensors and dataclasses in files, without pickle, that reveal when their content is not what was written.

No file is ever unpickled: reading one runs no code, wherever it comes from.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints, runtime_checkable

import polars as pl
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.files import write_atomically
from isoloss.results.store import FORMAT, damaged

Tensors = dict[str, Tensor]
"""Tensors by name."""
Drawn = TypeVar("Drawn")

METADATA = "isoloss"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], name: str) -> None:
    """Write tensors as safetensors, complete or absent; `name` identifies them and is required for reading.

    Raises IsolossError if the file cannot be written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "ones.safetensors"
    >>> write_tensors(path, {"a": torch.ones(2)}, "ones")
    >>> read_tensors(path, "ones")
    {'a': tensor([1., 1.])}
    >>> read_tensors(path, "twos")
    Traceback (most recent call last):
    isoloss.errors.Damaged: ...ones.safetensors is damaged or not what its name says; delete it and run again
    """
    contiguous = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in tensors.items()}
    metadata = json.dumps({"format": FORMAT, "digest": _tensors_digest(contiguous, name)})
    # A single entry, since the order of several in the file is arbitrary.
    write_atomically(path, safetensors.torch.save(contiguous, metadata={METADATA: metadata}))


def read_tensors(path: Path, name: str) -> Tensors:
    """What `write_tensors` wrote under that name. Raises Damaged if the file is anything else."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = json.loads((file.metadata() or {})[METADATA])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (OSError, safetensors.SafetensorError, ValueError, KeyError) as error:
        raise damaged(path) from error
    if metadata != {"format": FORMAT, "digest": _tensors_digest(tensors, name)}:
        raise damaged(path)
    return tensors


def text_tensor(content: Any) -> Tensor:
    """Plain data as the bytes of their JSON, to be stored among tensors.

    >>> data_of(text_tensor(["two", "texts"]))
    ['two', 'texts']
    """
    return torch.frombuffer(bytearray(json.dumps(content, ensure_ascii=False).encode()), dtype=torch.uint8)


def data_of(text: Tensor) -> Any:
    """The data given to `text_tensor`, with tuples as lists."""
    return json.loads(text.numpy().tobytes())


@runtime_checkable
class StoredAsTensors(Protocol):
    """A dataclass that serialises itself to named tensors instead of field by field."""

    def tensors(self) -> Tensors:
        """Its whole content as tensors by name."""
        ...

    @staticmethod
    def of_tensors(tensors: Tensors) -> Any:
        """The dataclass that `tensors` serialised."""
        ...


def tensors_of(drawn: Any) -> Tensors:
    """The tensors of a dataclass whose fields are tensors or such dataclasses, by dotted paths.

    Fields of anything else, such as None or a number, are left out: they need a default to be read back.

    >>> from isoloss.languages.sentences import Sentences
    >>> sorted(tensors_of(Sentences.from_lists([[0, 1]])))
    ['ids', 'lengths']
    """
    if isinstance(drawn, StoredAsTensors):
        return drawn.tensors()
    found: Tensors = {}
    for part in fields(drawn):
        value = getattr(drawn, part.name)
        if isinstance(value, Tensor):
            found[part.name] = value
        elif is_dataclass(value):
            found |= {f"{part.name}.{path}": tensor for path, tensor in tensors_of(value).items()}
    return found


def drawn_of(kind: type[Drawn], tensors: Mapping[str, Tensor]) -> Drawn:
    """The dataclass of that kind from the result of `tensors_of`. Raises KeyError if a tensor is missing.

    >>> from isoloss.languages.sentences import Sentences
    >>> drawn_of(Sentences, tensors_of(Sentences.from_lists([[0, 1], [2]]))).lengths
    tensor([2, 1])
    """
    if issubclass(kind, StoredAsTensors):
        found: Drawn = kind.of_tensors(dict(tensors))
        return found
    values: dict[str, Any] = {}
    for name, of_field in get_type_hints(kind).items():
        if name not in tensors and not is_dataclass(of_field) and hasattr(kind, name):  # the default
            continue
        nested: Any = of_field if is_dataclass(of_field) else None
        below = f"{name}."
        of_nested = {path.removeprefix(below): tensors[path] for path in tensors if path.startswith(below)}
        values[name] = tensors[name] if nested is None else drawn_of(nested, of_nested)
    return kind(**values)


def _tensors_digest(tensors: Mapping[str, Tensor], name: str) -> str:
    digest = hashlib.sha256(json.dumps([FORMAT, name]).encode())
    for key, tensor in sorted(tensors.items()):
        digest.update(json.dumps([key, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


_DTYPES: dict[str, type[pl.DataType]] = {
    kind.__name__: kind for kind in (pl.Int64, pl.Float64, pl.String, pl.Boolean)
}


def as_plain(kind: Any, value: Any) -> Any:
    """A value of that type as lists, objects, numbers and words, which `from_plain` reads.

    A number that JSON lacks is a word ("nan", "inf", "-inf"), a tensor a list, a table a list of columns; a
    dataclass is an object of its fields and, where the type allows several, its `kind`. Raises BadInput for a
    table with a column that is not of integers, numbers, strings or booleans.

    >>> from isoloss.results.record import Record
    >>> as_plain(Record, Record("loss", float("inf"), "nats", None, 9))["value"]
    'inf'
    """
    if isinstance(value, pl.DataFrame):
        return [_column(column) for column in value.iter_columns()]
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, tuple):
        return [as_plain(each, part) for each, part in zip(_parts(kind, len(value)), value, strict=True)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if not is_dataclass(value):
        return value
    types = get_type_hints(type(value))
    content = {field.name: as_plain(types[field.name], getattr(value, field.name)) for field in fields(value)}
    return {"kind": type(value).__name__} | content if len(_kinds(kind)) > 1 else content


def from_plain(kind: Any, content: Any) -> Any:
    """The value of that type that `as_plain` wrote; tensors are float64.

    Raises KeyError, TypeError, ValueError or AttributeError if the content is not of that type.
    """
    if kind is pl.DataFrame:
        return pl.DataFrame(
            [
                pl.Series(column["name"], _numbers(column), _DTYPES[column["dtype"]], strict=True)
                for column in content
            ]
        )
    if getattr(kind, "array_type", None) is Tensor:
        return torch.tensor(content, dtype=torch.float64)
    if content is not None and NoneType in (allowed := get_args(kind)) and len(allowed) == 2:
        return from_plain(next(each for each in allowed if each is not NoneType), content)
    if get_origin(kind) is tuple:
        return tuple(
            from_plain(each, part) for each, part in zip(_parts(kind, len(content)), content, strict=True)
        )
    if kind is float or (content is not None and float in get_args(kind) and str not in get_args(kind)):
        return float(content)
    found = _kinds(kind)
    if content is None or not found:
        return content
    (chosen,) = found if len(found) == 1 else (each for each in found if each.__name__ == content["kind"])
    types = get_type_hints(chosen)
    return chosen(
        **{
            field.name: from_plain(types[field.name], content[field.name])
            for field in fields(chosen)
            if field.name in content or field.default is MISSING
        }
    )


def _kinds(kind: Any) -> list[Any]:
    """The dataclasses that a type allows."""
    among = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    return [each for each in among if is_dataclass(each)]


def _parts(kind: Any, length: int) -> tuple[Any, ...]:
    """The types of a tuple's parts."""
    arguments = get_args(kind)
    return (arguments[0],) * length if arguments[-1] is Ellipsis else arguments


def _column(column: pl.Series) -> dict[str, Any]:
    if (dtype := str(column.dtype)) not in _DTYPES:
        raise BadInput(f"the column {column.name!r} holds {dtype}; a stored table holds {[*_DTYPES]}")
    return {"name": column.name, "dtype": dtype, "values": [as_plain(Any, each) for each in column.to_list()]}


def _numbers(column: dict[str, Any]) -> list[Any]:
    values: list[Any] = column["values"]
    if column["dtype"] != "Float64":
        return values
    return [None if value is None else float(value) for value in values]


def tensors_digest(tensors: Mapping[str, Tensor], beside: str = "") -> str:
    """SHA-256 of `beside` and every tensor, by name, with type and shape; about a second per gigabyte.

    >>> ones = torch.ones(2)
    >>> len({tensors_digest(each) for each in ({"a": ones}, {"b": ones}, {"a": ones[:, None]})})
    3
    """
    digest = hashlib.sha256(beside.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
