"""A page as data, and how it is written: HTML, and its panels' numbers and pictures as files."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import vl_convert
from markupsafe import Markup

from isoloss.experiments.claims import Judgement
from isoloss.files import write_atomically
from isoloss.panels import Layout, Panel
from isoloss.report.charts import draw
from isoloss.report.marks import CHART_WIDTH, STACKED_HEIGHT, STACKED_WIDTH, THEME, Drawing
from isoloss.report.templates import as_script_data, rendered, source
from isoloss.theory.finding import Finding

ASSETS = "assets"


@dataclass(frozen=True)
class Link:
    """A page of the site: its file's name without ending, and what it is called."""

    name: str
    title: str


@dataclass(frozen=True)
class Frame:
    """`style` and `script` are ready HTML, `links` lead to other pages, `files` is a folder."""

    style: Markup
    script: Markup
    links: tuple[Link, ...] = ()
    files: str = ""


def alone() -> Frame:
    """Of a page that is one file: style and script stand in it."""
    style, script = Markup(source("style.css")), Markup(_charts_script())
    return Frame(Markup("<style>{}</style>").format(style), Markup("<script>{}</script>").format(script))


def within_site(links: tuple[Link, ...]) -> Frame:
    """Of a page that shares style and script with the others; see `write_assets`."""
    return Frame(
        style=Markup(f'<link rel="stylesheet" href="{ASSETS}/style.css">'),
        script=Markup(f'<script src="{ASSETS}/charts.js"></script>'),
        links=links,
        files="files",
    )


def write_assets(folder: Path) -> None:
    """Write the style and the charts' JavaScript that pages `within_site` refer to."""
    write_atomically(folder / ASSETS / "style.css", source("style.css"))
    write_atomically(folder / ASSETS / "charts.js", _charts_script())


@cache
def _charts_script() -> str:
    """Vega, Vega-Lite and their embedding; bundling them takes more than a second."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)


COLUMNS = {1: "one", 4: "two"}
"""How a wide panel lays out so many charts: one beside a table is large, and none is left alone in a row."""


@dataclass(frozen=True)
class DrawnPanel:
    """A panel with its charts as drawings."""

    name: str
    title: str
    caption: str
    drawings: tuple[Drawing, ...]
    data: pl.DataFrame
    layout: Layout = "beside"

    @property
    def charts(self) -> list[alt.LayerChart]:
        """The drawings that are pictures."""
        return [drawing for drawing in self.drawings if isinstance(drawing, alt.LayerChart)]


@dataclass(frozen=True)
class Section:
    """A heading over text, ready HTML, a table of names and values, and code."""

    title: str
    text: str = ""
    markup: Markup = Markup()  # noqa: RUF009  (a string)
    rows: tuple[tuple[str, str], ...] = ()
    code: str = ""


@dataclass(frozen=True)
class Page:
    """Everything that a page shows, in its order; `name` is its file's, `text` a string a paragraph."""

    name: str
    title: str
    text: tuple[str, ...]
    opening: Markup = Markup()  # noqa: RUF009  (a string)
    panels: tuple[DrawnPanel, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    findings: tuple[Finding, ...] = ()
    sections: tuple[Section, ...] = ()
    notices: tuple[str, ...] = ()


def drawn(panel: Panel) -> DrawnPanel:
    """The panel with every chart of its drawn."""
    stem = "".join(letter if letter.isalnum() else "_" for letter in panel.name)
    drawings = [draw(chart, panel.data, f"{stem}_{number}") for number, chart in enumerate(panel.charts)]
    if panel.layout == "stacked":
        drawings = [
            drawing.properties(height=STACKED_HEIGHT) if isinstance(drawing, alt.LayerChart) else drawing
            for drawing in drawings
        ]
    return DrawnPanel(panel.name, panel.title, panel.caption, tuple(drawings), panel.data, panel.layout)


def write_page(page: Page, folder: Path, frame: Frame) -> Path:
    """Write the page into `folder`, and CSV, PNG and SVG of every panel; return the page's path.

    Several panels of one chart each are in one picture too, named as the page. Raises IsolossError when
    the folder cannot be written.
    """
    files = folder / frame.files
    offered = []
    for panel in page.panels:
        stem = files / f"{page.name}-{panel.name}"
        write_atomically(_ending(stem, ".csv"), panel.data.write_csv())
        if panel.charts:
            _write_picture(panel.charts, panel.title, stem, panel.layout)
        kinds = ("csv", "png", "svg") if panel.charts else ("csv",)
        offered.append({kind: f"{frame.files}/{stem.name}.{kind}".lstrip("/") for kind in kinds})
    single = [panel.charts[0] for panel in page.panels if len(panel.charts) == 1]
    if len(single) > 1:
        _write_picture(single, page.title, files / page.name, "beside")
    path = folder / f"{page.name}.html"
    write_atomically(path, _html(page, frame, offered))
    return path


def _write_picture(charts: Sequence[alt.LayerChart], title: str, stem: Path, layout: Layout) -> None:
    svg = _picture(charts, title, layout)
    write_atomically(_ending(stem, ".svg"), svg)
    write_atomically(_ending(stem, ".png"), vl_convert.svg_to_png(svg, scale=2))


def _picture(charts: Sequence[alt.LayerChart], title: str, layout: Layout) -> str:
    """The charts under their title, as SVG."""
    headed = alt.Title(title, fontSize=15, anchor="start")
    picture: alt.HConcatChart | alt.VConcatChart
    if layout == "stacked":
        sized = [_as_wide_as(STACKED_WIDTH, chart) for chart in charts]
        picture = alt.VConcatChart(vconcat=sized, title=headed, spacing=12)
    else:
        sized = [_as_wide_as(CHART_WIDTH, chart) for chart in charts]
        picture = alt.HConcatChart(hconcat=sized, title=headed, spacing=32)
    # The legends of several charts are each their own.
    picture = picture.resolve_scale(color="independent", shape="independent")
    # On white, with room around: a picture goes on pages of any colour.
    specification = _specification(picture) | {"background": "white", "padding": 12}
    svg: str = vl_convert.vegalite_to_svg(specification)
    return svg


def _specification(chart: alt.LayerChart | alt.HConcatChart | alt.VConcatChart) -> dict[str, Any]:
    """As Vega-Lite reads it, in the look that all charts have."""
    # Altair refuses more than 5,000 rows unless told otherwise; a landscape has more cells.
    with alt.data_transformers.enable("default", max_rows=None):
        found: dict[str, Any] = chart.configure(**THEME).to_dict()
    return found


def _as_wide_as(width: int | str, chart: alt.LayerChart) -> alt.LayerChart:
    """The chart with that width, unless it has one of its own."""
    return chart.properties(width=width) if chart.width is alt.Undefined else chart


def _ending(stem: Path, ending: str) -> Path:
    """The path with an ending; a dot in the stem (rho-0.05, say) is no ending."""
    return stem.with_name(stem.name + ending)


def write_lone_page(page: Page, path: Path) -> None:
    """Write the page into one file that refers to no other: the numbers and pictures it offers are inside.

    Raises IsolossError when it cannot be written.
    """
    write_atomically(path, _html(page, alone(), [_files_within(panel) for panel in page.panels]))


def _files_within(panel: DrawnPanel) -> dict[str, str]:
    """What a panel offers, by kind, as data that links hold."""
    files = {"csv": _as_link("text/csv", panel.data.write_csv().encode())}
    if panel.charts:
        svg = _picture(panel.charts, panel.title, panel.layout)
        files["png"] = _as_link("image/png", vl_convert.svg_to_png(svg, scale=2))
        files["svg"] = _as_link("image/svg+xml", svg.encode())
    return files


def _as_link(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{b64encode(content).decode()}"


def _html(page: Page, frame: Frame, files: Sequence[dict[str, str]]) -> str:
    """`files` are what each panel offers, by kind: where it is found."""
    panels = [
        {
            "title": panel.title,
            "caption": panel.caption,
            "drawings": [_embedded(drawing) for drawing in panel.drawings],
            "wide": len(panel.drawings) > 1 or not panel.charts,
            "files": offered,
            "columns": _columns(panel),
            "file": f"{page.name}-{panel.name}",
        }
        for panel, offered in zip(page.panels, files, strict=True)
    ]
    scripted = any(panel.charts for panel in page.panels)
    return rendered("page.html.j2", page=page, panels=panels, frame=frame, scripted=scripted)


def _columns(panel: DrawnPanel) -> str:
    if panel.layout == "stacked":
        return "stacked"
    return COLUMNS.get(len(panel.charts), "as-they-fit")


def _embedded(drawing: Drawing) -> dict[str, str | Markup]:
    """Ready HTML as `markup`, or a chart as a `specification` with the `label` that is read aloud."""
    if isinstance(drawing, Markup):
        return {"markup": drawing}
    specification = _specification(_as_wide_as("container", drawing))
    label = specification.get("description", "")
    return {"specification": as_script_data(specification), "label": label}
