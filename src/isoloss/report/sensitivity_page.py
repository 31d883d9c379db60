"""The report of `isoloss sensitivity`: the predicted divergence of every part of a model."""

from collections.abc import Sequence

import polars as pl

from isoloss.curvature.weight_changes import Rounding
from isoloss.measurements.sensitivity import UNIT, WHOLE, PartUnderChange
from isoloss.panels import Axis, Bars, Chart, Colour, Lines, Panel
from isoloss.report.page import Page, Section, drawn
from isoloss.report.table import cell, html_table

CAPTION = "KL(before || after) of changing one part alone, ± the standard error over sentences"


def sensitivity_page(
    model: str, found: Sequence[PartUnderChange], roundings: Sequence[Rounding], command: str
) -> Page:
    """A picture of the roundings over their bits, one of every other change, and a table of all numbers."""
    bits_of = {each.name: each.bits for each in roundings}
    rounded = [each for each in found if each.change in bits_of]
    others = [each for each in found if each.change not in bits_of]
    panels = []
    if rounded:
        value = Axis("value", f"KL ({UNIT})", "error", logarithmic=True)
        lines = Lines(Axis("bits", "bits"), value, Colour("part", ""), "part")
        panels.append(_panel("rounding", "Rounding to few bits", lines, rounded, bits_of))
    if others:
        bars = Bars("part", Axis("value", f"KL ({UNIT})", "error"), Colour("change", ""))
        panels.append(_panel("other-changes", "Other changes", bars, others, bits_of))
    rows = [
        [
            cell(each.part),
            cell(each.change),
            cell(each.numbers),
            *(
                cell(None) if one is None else cell(one.value, one.standard_error)
                for one in (each.from_trace, each.quadratic, each.measured)
            ),
        ]
        for each in found
    ]
    titles = ("part", "change", "numbers", "from the trace", "½ δᵀFδ", "measured")
    return Page(
        name="sensitivity",
        title=f"What changes of the weights cost {model}",
        text=(f"{CAPTION}, in {UNIT}; '{WHOLE}' is all parts at once.",),
        panels=tuple(map(drawn, panels)),
        sections=(
            Section("All numbers", markup=html_table(titles, rows)),
            Section("How it was predicted", code=command),
        ),
    )


def _panel(
    name: str, title: str, chart: Chart, found: Sequence[PartUnderChange], bits_of: dict[str, int]
) -> Panel:
    rows = [
        {
            "part": each.part,
            "change": each.change,
            "bits": bits_of.get(each.change),
            "value": each.best.value,
            "error": each.best.standard_error,
        }
        for each in found
    ]
    return Panel(f"sensitivity-{name}", title, f"{CAPTION}.", (chart,), pl.DataFrame(rows))
