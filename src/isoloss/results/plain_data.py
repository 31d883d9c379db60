"""Dataclasses as plain data for JSON files, and read back by the types of their fields."""

import math
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import polars as pl
import torch
from torch import Tensor

from isoloss.errors import BadInput

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
