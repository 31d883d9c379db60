"""The rows of a panel's table that a chart can draw, under the names that the chart gives them."""

import polars as pl

from isoloss.panels import Axis, Colour
from isoloss.report.number import shown

PLACE = ("run", "seed", "step")
"""Columns that say which checkpoint a row is; those that are there are shown on hover."""


def plotted(data: pl.DataFrame, axes: dict[str, Axis], colour: Colour | None, **others: str) -> pl.DataFrame:
    """A column for each of `axes` and `others`, `colour`, and PLACE, whatever they are called in `data`.

    An axis `x` brings the ends of its bars, `x_low` and `x_high`, and `x_text`, the number in words. Rows
    that lack a number of an axis, or whose number a logarithmic axis cannot show, are left out; a table
    that lacks a column gives no rows.

    >>> data = pl.DataFrame({"trace": [8.0, None], "trace_error": [0.5, None], "width": [16, 32]})
    >>> plotted(data, {"y": Axis("trace", "trace", "trace_error")}, Colour("width", "width")).to_dicts()
    [{'colour': 16, 'y': 8.0, 'y_low': 7.5, 'y_high': 8.5, 'y_text': '8.00 ± 0.50'}]
    """
    named = {**others, **({"colour": colour.column} if colour else {})}
    if not {axis.column for axis in axes.values()} | set(named.values()) <= set(data.columns):
        return pl.DataFrame()
    columns = {name: pl.col(name) for name in PLACE if name in data.columns}
    columns |= {name: pl.col(column) for name, column in named.items()}
    for name, axis in axes.items():
        columns[name] = pl.col(axis.column).cast(pl.Float64)
        known = axis.error in data.columns
        columns[f"{name}_error"] = pl.col(axis.error).cast(pl.Float64) if known else pl.lit(None, pl.Float64)
    frame = data.select(**columns)
    frame = frame.filter(*(_can_be_shown(name, axis) for name, axis in axes.items()))
    for name, axis in axes.items():
        frame = _with_bar(frame, name, axis)
    return frame


def _can_be_shown(name: str, axis: Axis) -> pl.Expr:
    number = pl.col(name)
    finite = number.is_not_null() & number.is_finite()
    return finite & (number > 0) if axis.logarithmic else finite


def _with_bar(frame: pl.DataFrame, name: str, axis: Axis) -> pl.DataFrame:
    half = pl.col(f"{name}_error").fill_null(0.0).fill_nan(0.0)
    low = pl.col(name) - half
    if axis.logarithmic:
        # A bar that reaches zero has no end on a logarithmic axis: it is cut at the smallest number.
        low = pl.max_horizontal(low, pl.col(name).min())
    pairs = zip(frame[name], frame[f"{name}_error"], strict=True)
    words = pl.Series(f"{name}_text", [shown(value, error) for value, error in pairs], dtype=pl.String)
    bar = (low.alias(f"{name}_low"), (pl.col(name) + half).alias(f"{name}_high"), words)
    return frame.with_columns(*bar).drop(f"{name}_error")
