"""What stands around a page: its style and script, the way to other pages, and where its files lie."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import altair as alt
import vl_convert
from markupsafe import Markup

from isoloss.files import write_atomically
from isoloss.report.templates import source

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
