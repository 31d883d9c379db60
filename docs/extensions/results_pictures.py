"""The documentation's pictures, drawn anew from the shipped results: after charts have changed.

Panels are drawn from the rows that are shipped, so that nothing is run: those of an earlier round as well, in
today's experiment.
"""

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import vl_convert
from results_quoted import conclusion
from results_shipped import PIXELS, ROOT, picture_name, read_shipped

from isoloss.experiments.claims import Judgement
from isoloss.experiments.design import builtin_designs
from isoloss.experiments.scale import scale_named
from isoloss.report.page import drawn
from isoloss.results.verdict import Verdict

TITLED = ("flatten-polish",)
"""README's picture: its title is the finding, where its claims one after another would take three lines."""


def picture(shipped: dict[str, Any]) -> bytes | None:
    """A shipped result's picture as PNG; None if it has none, or its rows lack a column of today's."""
    result = shipped["result"]
    design = builtin_designs()[result["name"]]
    if design.picture is None:
        return None
    experiment = design.at(scale_named(shipped["scale"]))
    table = pl.DataFrame([*result["checkpoints"], *result["references"]], infer_schema_length=None)
    try:
        panels = {panel.name: panel for panel in experiment.drawn(table)}
    except pl.exceptions.ColumnNotFoundError:
        return None
    shown = drawn(panels[design.picture.panel], _judged(result))
    if result["name"] in TITLED:
        shown = replace(shown, title=conclusion(shipped) or shown.title)
    return vl_convert.svg_to_png(vl_convert.vegalite_to_svg(shown.picture), scale=PIXELS)


def _judged(result: dict[str, Any]) -> list[Judgement]:
    """As much of each judgement as a heading reads: the claim's words and its verdict."""
    return [
        cast(Judgement, SimpleNamespace(claim=SimpleNamespace(**claim), verdict=Verdict(claim["verdict"])))
        for claim in result["claims"]
    ]


if __name__ == "__main__":
    for shipped in read_shipped():
        name = shipped["result"]["name"]
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        if (found := picture(shipped)) is not None:
            (ROOT / "docs" / picture_name(name, shipped["scale"])).write_bytes(found)
            print(picture_name(name, shipped["scale"]))  # noqa: T201
