"""The marks that charts share: dots, bars, how a run stands out on hover, and how an axis is scaled."""

import altair as alt
import polars as pl

from isoloss.panels import Axis, Colour
from isoloss.report.colours import colour, shape

FADED, PLAIN = 0.1, 0.9


def x(axis: Axis, field: str = "x") -> alt.X:
    """The horizontal position."""
    return alt.X(f"{field}:Q", title=axis.title, scale=scale(axis), axis=ticks(axis))


def y(axis: Axis, field: str = "y") -> alt.Y:
    """The vertical position."""
    return alt.Y(f"{field}:Q", title=axis.title, scale=scale(axis), axis=ticks(axis))


def scale(axis: Axis) -> alt.Scale:
    """From the smallest to the largest number rather than from zero: differences are what is looked at."""
    if axis.logarithmic:
        return alt.Scale(type="log", nice=False, padding=8)
    return alt.Scale(zero=False, nice=True)


def ticks(axis: Axis) -> alt.Axis:
    """Few enough labels that none covers another."""
    if axis.logarithmic:
        return alt.Axis(tickCount=5, labelOverlap=True, format=",~g")
    return alt.Axis(tickCount=6)


def dots(
    base: alt.Chart, frame: pl.DataFrame, by: Colour, hover: alt.Parameter, titles: dict[str, str], size: int
) -> alt.Chart:
    """A mark a row with its numbers on hover; `titles` names columns and what they are called there."""
    tooltip = [alt.Tooltip(f"{name}:N", title=title) for name, title in titles.items()]
    opacity = alt.when(hover).then(alt.value(PLAIN)).otherwise(alt.value(FADED))
    marked: alt.Chart = base.mark_point(filled=True, size=size).encode(
        color=colour(frame, by), shape=shape(frame, by), opacity=opacity, tooltip=tooltip
    )
    return marked


def zoom(name: str) -> alt.Parameter:
    """Drag to move, Ctrl and scroll to zoom; scrolling alone moves the page."""
    return alt.selection_interval(name=f"zoom_{name}", bind="scales", zoom="wheel![event.ctrlKey]")


def hovered(name: str, field: str) -> alt.Parameter:
    """The rows that have the hovered row's value of `field`; all rows while none is hovered."""
    return alt.selection_point(name=f"hover_{name}", fields=[field], on="pointerover", clear="pointerout")


def of_place(frame: pl.DataFrame) -> dict[str, str]:
    """The columns that say which checkpoint a row is, those that are there."""
    return {name: name for name in ("run", "seed", "step") if name in frame.columns}
