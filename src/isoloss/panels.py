"""Panels of a figure as plain data: what is plotted against what; the report turns them into pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import polars as pl


@dataclass(frozen=True)
class Axis:
    """A column to plot, its title with the unit, its error's column (half the bar's length; empty: none)."""

    column: str
    title: str
    error: str = ""
    logarithmic: bool = False


@dataclass(frozen=True)
class Colour:
    """The column shown by colours and marks; `ordered` values (sizes) get colours in order."""

    column: str
    title: str
    ordered: bool = False


@dataclass(frozen=True)
class Dots:
    """A dot per row, with error bars on both axes.

    Those with one value of the column `joined` are joined by a line; by default, those of a run that has
    several, else those of a seed.
    """

    x: Axis
    y: Axis
    colour: Colour
    joined: str = ""


@dataclass(frozen=True)
class Mark:
    """A place on the x axis, and in a word or two what is there."""

    x: float
    label: str


@dataclass(frozen=True)
class Lines:
    """A line for each value of the column `series`, through dots with error bars on y.

    Rows whose column `predicted` is true are a dashed line without dots, which the legend calls `dashed`: a
    prediction, unless stated otherwise. `marked` is a dashed vertical rule, and `level` the y of a
    horizontal one, the entropy; there is none by default.
    """

    x: Axis
    y: Axis
    colour: Colour
    series: str
    predicted: str = ""
    dashed: str = "predicted"
    marked: Mark | None = None
    level: float | None = None


@dataclass(frozen=True)
class Categories:
    """A dot per row, with its error bar, over its category: a table's rows as a picture."""

    category: str
    y: Axis
    colour: Colour


@dataclass(frozen=True)
class Bars:
    """A bar per row, from zero, with its error, at its category and beside those of other colours there."""

    category: str
    y: Axis
    colour: Colour


@dataclass(frozen=True)
class Table:
    """Columns of the data with their titles; one with a named error shows value ± error."""

    columns: tuple[Axis, ...]


@dataclass(frozen=True)
class Landscape:
    """A height over the plane as a heat map, with lines over it.

    Rows whose column `height` is a number are the cells of a regular grid, each centred at its (x, y). Rows
    whose height is null are points of lines: those of one `series` are joined in the order of the rows and
    named in the legend; a series of one row is a dot. Both axes have the same unit, so that angles are true.
    """

    x: Axis
    y: Axis
    height: Axis
    series: Colour


@runtime_checkable
class TreeNode(Protocol):
    """A label and the parts below it, left to right; a word is a node without parts."""

    @property
    def label(self) -> str:
        """A symbol or a word."""
        ...

    @property
    def children(self) -> "Sequence[TreeNode]":
        """The parts."""
        ...


@dataclass(frozen=True)
class Tree:
    """A derivation tree, drawn from its root; it uses none of the panel's data."""

    root: TreeNode


Chart = Dots | Lines | Categories | Bars | Table | Landscape | Tree


Layout = Literal["beside", "stacked"]


@dataclass(frozen=True)
class Panel:
    """One panel of a figure: charts of one table of numbers, and a caption.

    They are side by side or stacked: stacked charts over the same x axis are aligned. `shows` names the
    claims that it is the picture of: where they are judged, their outcome is its heading, above its `title`.
    """

    name: str
    title: str
    caption: str
    charts: tuple[Chart, ...]
    data: pl.DataFrame
    layout: Layout = "beside"
    shows: tuple[str, ...] = ()


def columns_of(chart: Chart) -> tuple[str, ...]:
    """The columns of a panel's data that a chart uses.

    >>> columns_of(Dots(Axis("loss", "", "kl_error"), Axis("trace", ""), Colour("width", "")))
    ('loss', 'kl_error', 'trace', 'width')
    """
    axes: tuple[Axis, ...]
    others: tuple[str, ...]
    match chart:
        case Dots():
            axes, others = (chart.x, chart.y), (chart.colour.column, chart.joined)
        case Lines():
            axes, others = (chart.x, chart.y), (chart.colour.column, chart.series, chart.predicted)
        case Categories() | Bars():
            axes, others = (chart.y,), (chart.category, chart.colour.column)
        case Table():
            axes, others = chart.columns, ()
        case Landscape():
            axes, others = (chart.x, chart.y, chart.height), (chart.series.column,)
        case Tree():
            axes, others = (), ()
    of_axes = (name for axis in axes for name in (axis.column, axis.error))
    return tuple(filter(None, (*of_axes, *others)))
