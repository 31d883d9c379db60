"""What tells marks apart: a colour and a shape for each value, for every eye and in black and white."""

from typing import Any

import altair as alt
import polars as pl

from isoloss.panels import Colour

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Okabe and Ito's colours for all kinds of colour vision, their yellow, too pale on white, replaced."""

VIRIDIS = ("#8BD646", "#35B779", "#1F9D8A", "#25848E", "#31688E", "#3F4889", "#472374", "#440154")
"""From light to dark as values rise, without the palest tones, which white would swallow."""

SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
LEGEND_CHARACTERS = 46
"""About as many fit beside one another over a chart."""


def colour(frame: pl.DataFrame, by: Colour) -> alt.Color:
    """Of the column `colour`: a scheme ordered in lightness for `ordered` values, else colours far apart."""
    values = domain(frame, by)
    chosen = ordered_colours(len(values)) if by.ordered else _cycled(PALETTE, len(values))
    scale = alt.Scale(domain=values, range=chosen)
    return alt.Color("colour:N", sort=None, scale=scale, legend=_legend(values, by))


def shape(frame: pl.DataFrame, by: Colour) -> alt.Shape:
    """A shape for each value of the column `colour`, in one legend with its colour."""
    values = domain(frame, by)
    # A step further in each round of colours, so that no pair of colour and shape comes twice.
    shapes = [SHAPES[(k + k // len(PALETTE)) % len(SHAPES)] for k in range(len(values))]
    scale = alt.Scale(domain=values, range=shapes)
    return alt.Shape("colour:N", sort=None, scale=scale, legend=_legend(values, by))


def ordered_colours(number: int) -> list[str]:
    """As many colours from light to dark, as far apart as can be.

    >>> ordered_colours(2)
    ['#8bd646', '#440154']
    """
    stops = [tuple(int(stop[k : k + 2], 16) for k in (1, 3, 5)) for stop in VIRIDIS]
    places = [k * (len(stops) - 1) / max(number - 1, 1) for k in range(number)]
    mixed = []
    for place in places:
        before, share = int(place), place % 1
        after = stops[min(before + 1, len(stops) - 1)]
        parts = [round(a + share * (b - a)) for a, b in zip(stops[before], after, strict=True)]
        mixed.append("#" + "".join(f"{part:02x}" for part in parts))
    return mixed


def domain(frame: pl.DataFrame, by: Colour) -> list[Any]:
    """The values in their order: that of numbers, else that of appearance."""
    values = frame["colour"].drop_nulls().unique(maintain_order=True)
    return (values.sort() if by.ordered and values.dtype.is_numeric() else values).to_list()


def _cycled(colours: tuple[str, ...], number: int) -> list[str]:
    return [colours[k % len(colours)] for k in range(number)]


def _legend(values: list[Any], by: Colour) -> alt.Legend:
    longest = max((len(str(value)) for value in values), default=1)
    columns = max(1, min(len(values), LEGEND_CHARACTERS // (longest + 5)))
    return alt.Legend(title=by.title, orient="top", symbolOpacity=1, columns=columns, labelLimit=300)
