"""One self-contained HTML file: charts with a single copy of their JavaScript, tables, downloads."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import altair as alt
import polars as pl
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined

from isoloss.experiments.claims import Judgement
from isoloss.files import write_atomically

CHART_WIDTH, CHART_HEIGHT = 360, 300


@dataclass(frozen=True)
class Panel:
    """One panel of a figure: its charts side by side, what they show, and the numbers behind them."""

    name: str
    title: str
    caption: str
    charts: tuple[alt.LayerChart, ...]
    data: pl.DataFrame


@dataclass(frozen=True)
class Section:
    """A heading with ready HTML (from trusted code) or a table of name and value."""

    title: str
    text: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    markup: str = ""
    code: str = ""


@dataclass(frozen=True)
class Page:
    """Everything that the report shows, in its order; `opening` is ready HTML (from trusted code)."""

    title: str
    summary: str
    panels: tuple[Panel, ...]
    judgements: tuple[Judgement, ...]
    sections: tuple[Section, ...]
    notices: tuple[str, ...] = ()
    opening: str = ""


def write_page(page: Page, folder: Path, name: str) -> Path:
    """Write `name`.html into `folder`, and beside it CSV, PNG and SVG of every panel; return the page's path.

    The panels of one chart are in one picture too, `name`.png and .svg. Raises IsolossError when the
    folder cannot be written.
    """
    for panel in page.panels:
        stem = folder / f"{name}-{panel.name}"
        write_atomically(stem.with_suffix(".csv"), panel.data.write_csv())
        _write_picture(panel.charts, panel.title, stem)
    whole = tuple(panel.charts[0] for panel in page.panels if len(panel.charts) == 1)
    if whole:
        _write_picture(whole, page.title, folder / name)
    path = folder / f"{name}.html"
    write_atomically(path, _html(page, name))
    return path


def _write_picture(charts: Sequence[alt.LayerChart], title: str, stem: Path) -> None:
    sized = [chart.properties(width=CHART_WIDTH, height=CHART_HEIGHT) for chart in charts]
    picture = alt.HConcatChart(hconcat=sized, title=title).configure_title(fontSize=15, anchor="start")
    # A picture on a page of any colour, with room around it.
    specification = picture.configure(background="white", padding=12).to_dict()
    write_atomically(stem.with_suffix(".svg"), vl_convert.vegalite_to_svg(specification))
    write_atomically(stem.with_suffix(".png"), vl_convert.vegalite_to_png(specification, scale=2))


def _html(page: Page, name: str) -> str:
    environment = Environment(
        loader=PackageLoader("isoloss.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    panels = [
        {
            "title": panel.title,
            "caption": panel.caption,
            "charts": [_embedded(chart) for chart in panel.charts],
            "csv": _data_address(panel.data.write_csv()),
            "file": f"{name}-{panel.name}",
        }
        for panel in page.panels
    ]
    return environment.get_template("page.html.j2").render(page=page, panels=panels, script=_script())


def _embedded(chart: alt.LayerChart) -> str:
    responsive = chart.properties(width="container", height=CHART_HEIGHT).to_dict()
    # "</" would end the script element that the specification stands in.
    return json.dumps(responsive).replace("</", "<\\/")


@cache
def _script() -> str:
    """The charts' JavaScript, which takes more than a second to bundle."""
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)


def _data_address(text: str) -> str:
    return "data:text/csv;base64," + base64.b64encode(text.encode()).decode()
