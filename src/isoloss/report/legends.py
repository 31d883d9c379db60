"""One legend for all charts of a panel, as HTML above them."""

from typing import Any

from markupsafe import Markup

from isoloss.report.marks import MOST_IN_LEGEND, SHAPES, Key

OUTLINES = dict(
    zip(
        SHAPES,
        (
            "M8 3a5 5 0 1 0 .01 0z",
            "M3.5 3.5h9v9h-9z",
            "M8 3l5.5 10h-11z",
            "M8 2l5 6-5 6-5-6z",
            "M6 2.5h4V6h3.5v4H10v3.5H6V10H2.5V6H6z",
            "M8 13l5.5-10h-11z",
            "M3 2.5l10 5.5-10 5.5z",
            "M13 2.5L3 8l10 5.5z",
        ),
        strict=True,
    )
)
"""Each shape of a dot as an SVG path, 16 by 16."""


def legend(key: Key) -> Markup:
    """What the colours and shapes mean; nothing where they are one value, or too many to name.

    >>> from isoloss.panels import Colour
    >>> "width" in legend(Key(Colour("width", "width", ordered=True), (16, 32)))
    True
    """
    if not 1 < len(key.values) <= MOST_IN_LEGEND:
        return Markup()
    item = Markup(
        '<span><svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true"><path d="{}" fill="{}"/>'
        "</svg> {}</span>"
    )
    items = (
        item.format(OUTLINES[shape], colour, value)
        for value, colour, shape in zip(key.values, key.colours, key.shapes, strict=True)
    )
    return Markup('<p class="legend">{} {}</p>').format(key.by.title, Markup(" ").join(items))


def without_legends(part: Any) -> None:
    """Take the legends of colours and shapes out of a specification, in place."""
    if isinstance(part, list):
        for each in part:
            without_legends(each)
    elif isinstance(part, dict):
        for name, value in part.items():
            if name in ("color", "shape", "fill") and isinstance(value, dict) and "field" in value:
                value["legend"] = None
            elif name != "datasets":
                without_legends(value)
