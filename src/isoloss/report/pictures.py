"""A panel's charts as one picture in files, in PDF as wide as a paper's column, and their legend in HTML."""

import json
import re
import textwrap
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vl_convert
from markupsafe import Markup

from isoloss.errors import printable
from isoloss.files import write_atomically
from isoloss.panels import Layout
from isoloss.report.marks import (
    CHART_WIDTH,
    MOST_IN_LEGEND,
    PAPER,
    SHAPES,
    STACKED_WIDTH,
    THEME,
    Key,
    legend_columns,
    on_dark_ground,
)

KINDS = ("png", "svg", "pdf")
_NOT_IN_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")
"""What `printable` leaves, and XML does not have."""

COLUMN_WIDTH = 234.0
"""In points: 3.25 inches, one of two columns on letter paper."""
_COLUMN_CHART = {"width": 172, "height": 116}
_COLUMN_THEME: dict[str, Any] = {
    "axis": THEME["axis"] | {"labelFontSize": 8, "titleFontSize": 8, "tickSize": 3},
    "axisY": {"minExtent": 30},
    "legend": THEME["legend"] | {"labelFontSize": 8, "titleFontSize": 8, "symbolSize": 40},
}


def one_picture(
    charts: Sequence[dict[str, Any]], title: str, layout: Layout, subtitle: str = "", key: Key | None = None
) -> dict[str, Any]:
    """The charts under their title, as a Vega-Lite specification, with one legend for a `key` of them all."""
    columns = 1 if layout == "stacked" else COLUMNS.get(len(charts), 3)
    width = (STACKED_WIDTH, CHART_WIDTH, NARROW_WIDTH)[columns - 1]
    total = columns * (width + BESIDE)
    headed = {
        "text": in_lines(title, total // PIXELS_A_LETTER) or "",
        "fontSize": 16,
        "anchor": "start",
        "offset": 12,
        **({"subtitle": subtitle, "subtitleFontSize": 13, "subtitlePadding": 5} if subtitle else {}),
    }
    shared = ("$schema", "config", "datasets", "params")
    placed = [{"width": width} | {k: v for k, v in each.items() if k not in shared} for each in charts]
    if key is not None:
        columns_of_legends = {"columns": legend_columns(key, total)}
        placed = _changed(placed, lambda part: part | columns_of_legends if "columns" in part else part)
    return {
        "concat": placed,
        "columns": columns,
        "spacing": 12 if layout == "stacked" else 32,
        "$schema": charts[0]["$schema"],
        "config": charts[0]["config"],
        "datasets": {name: rows for each in charts for name, rows in each["datasets"].items()},
        "params": [parameter for each in charts for parameter in each.get("params", ())],
        "resolve": {"scale": dict.fromkeys(("color", "shape"), "independent" if key is None else "shared")},
        "title": headed,
        # On white, with a margin: pictures are placed on pages of any colour.
        "background": PAPER,
        "padding": 12,
    }


def in_lines(title: str, most: int) -> list[str]:
    r"""The title in as few lines as have at most that many letters, about equally long; no formula is broken.

    >>> in_lines("On one curve over t = k / 4", 24)
    ['On one curve', 'over t\xa0=\xa0k\xa0/\xa04']
    """
    whole = re.sub(r" ([=/<>≤≥]) ", "\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", title)
    return min((textwrap.wrap(whole, letters) for letters in range(1, most + 1)), key=len)


PIXELS_A_LETTER = 9
"""Of a title, in the mean."""
COLUMNS = {1: 1, 2: 2, 4: 2}
"""Of a picture of that many charts, else 3: it is to be read at the width of a page."""
NARROW_WIDTH = 260
"""Of each of three charts beside each other, in pixels."""
BESIDE = 65
"""What a chart's y axis takes, in pixels."""


def in_a_column(picture: dict[str, Any]) -> dict[str, Any]:
    """A picture of `one_picture` for print: charts stacked, without title, in small letters."""
    others = {name: value for name, value in picture.items() if name not in ("concat", "columns", "title")}
    return others | {
        "vconcat": [_changed(chart, _narrow) | _column_size(chart) for chart in picture["concat"]],
        "config": picture["config"] | _COLUMN_THEME,
        "padding": 1,
        "spacing": 8,
    }


def _column_size(chart: dict[str, Any]) -> dict[str, Any]:
    """A landscape stays square, and rows of categories keep their distance."""
    width = _COLUMN_CHART["width"]
    if isinstance(chart.get("width"), int) and chart["width"] == chart["height"]:
        return {"width": width, "height": width}
    return _COLUMN_CHART if chart["height"] <= 300 else {"width": width, "height": chart["height"] // 2}


def _changed(part: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A part of a specification with every object as `change` makes it, what is inside it first."""
    if isinstance(part, list):
        return [_changed(each, change) for each in part]
    if not isinstance(part, dict):
        return part
    return change({name: _changed(value, change) for name, value in part.items()})


def _narrow(part: dict[str, Any]) -> dict[str, Any]:
    """Half as many columns in a wide legend, and no mark larger than its place."""
    narrow = dict(part)
    if isinstance(columns := narrow.get("columns"), int) and columns > 2:
        narrow["columns"] = columns // 2
    if narrow.get("type") == "point" and isinstance(size := narrow.get("size"), int):
        narrow["size"] = size // 3
    return narrow


def _drawn(picture: dict[str, Any]) -> str:
    """The picture as SVG; characters that XML does not have are written out, or else replaced."""

    def printed(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: printed(value) for name, value in part.items()}
        if isinstance(part, list):
            return [printed(each) for each in part]
        return _NOT_IN_XML.sub("\ufffd", printable(part)) if isinstance(part, str) else part

    svg: str = vl_convert.vegalite_to_svg(printed(picture))
    return svg


def svg_and_png(picture: dict[str, Any]) -> tuple[str, bytes]:
    """The rendered picture, as vectors with colours for light and dark ground, and two pixels per pixel."""
    svg = _drawn(picture)
    begun, head, rest = svg.partition(">")
    dark = f"<style>@media (prefers-color-scheme: dark) {{{on_dark_ground()}}}</style>"
    return f"{begun}{head}{dark}{rest}", vl_convert.svg_to_png(svg, scale=2)


def _as_pdf(narrow: dict[str, Any]) -> bytes:
    """Vector graphics, fonts embedded, COLUMN_WIDTH wide."""
    svg = _drawn(narrow)
    head = re.match(r'(<svg[^>]*?) width="([0-9.]+)" height="([0-9.]+)"', svg)
    if head:  # its viewBox is unchanged
        width, height = float(head[2]), float(head[3])
        size = f' width="{COLUMN_WIDTH:g}" height="{COLUMN_WIDTH * height / width:.2f}"'
        svg = head[1] + size + svg[head.end() :]
    pdf: bytes = vl_convert.svg_to_pdf(svg)
    return pdf


def write_pictures(picture: dict[str, Any], stem: Path) -> None:
    """Write the picture as files of all KINDS, unless they are there as they were drawn from it.

    Raises IsolossError if they cannot be written.
    """
    paths = {kind: stem.with_name(f"{stem.name}.{kind}") for kind in KINDS}
    narrow = in_a_column(picture)
    settings = json.dumps([picture, narrow, version("vl-convert-python")])
    if all(path.exists() for path in paths.values()):
        held = {kind: path.read_bytes() for kind, path in paths.items()}
        svg, _, seal = held["svg"].rpartition(b"\n<!-- drawn")
        if b"\n<!-- drawn" + seal == _seal(settings, {**held, "svg": svg}):
            return
    text, png = svg_and_png(picture)
    drawn = {"png": png, "pdf": _as_pdf(narrow), "svg": text.encode()}
    write_atomically(paths["png"], drawn["png"])
    write_atomically(paths["pdf"], drawn["pdf"])
    # The last one, whose seal vouches for all.
    write_atomically(paths["svg"], drawn["svg"] + _seal(settings, drawn))


def _seal(settings: str, drawn: dict[str, bytes]) -> bytes:
    """An SVG's last line: the digest of what the picture is drawn from, and of its files."""
    digest = sha256(settings.encode())
    for kind in KINDS:
        digest.update(sha256(drawn[kind]).digest())
    return f"\n<!-- drawn from {digest.hexdigest()} -->\n".encode()


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


def without_legends(part: Any) -> Any:
    """A part of a specification without the legends of its colours and shapes."""

    def without(found: dict[str, Any]) -> dict[str, Any]:
        for name in ("color", "shape", "fill"):
            if isinstance(found.get(name), dict) and "field" in found[name]:
                found[name]["legend"] = None
        return found

    return _changed(part, without)
