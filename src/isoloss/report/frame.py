"""What pages share: Jinja templates with all inputs escaped, style, script, and links to one another."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from isoloss.corpora.fetched_package import default_cache
from isoloss.errors import IsolossError
from isoloss.files import write_atomically
from isoloss.report.marks import on_dark_ground
from isoloss.report.table import in_numbers, interval_picture
from isoloss.results.record import as_text, in_brief

ASSETS, FILES = "assets", "files"
"""The folders of a site that hold what its pages share, and what they offer."""


@dataclass(frozen=True)
class Link:
    """A page of the site: its file's name without suffix, its title, and its question."""

    name: str
    title: str
    asks: str = ""


@dataclass(frozen=True)
class Frame:
    """`style` and `script` are ready HTML, `groups` are links to other pages, by their titles."""

    style: Markup
    script: Markup
    groups: Mapping[str, Sequence[Link]] = field(default_factory=dict)


def alone() -> Frame:
    """For a page in a single file, with style and script inside."""
    style, script = Markup(_style()), Markup(_charts_script())
    return Frame(Markup("<style>{}</style>").format(style), Markup("<script>{}</script>").format(script))


def within_site(groups: Mapping[str, Sequence[Link]]) -> Frame:
    """For a page that shares style and script with the others; see `write_assets`."""
    style = Markup(f'<link rel="stylesheet" href="{ASSETS}/style.css">')
    return Frame(style, Markup(f'<script defer src="{ASSETS}/charts.js"></script>'), groups)


def write_assets(folder: Path) -> None:
    """Write the style and the charts' JavaScript to which pages `within_site` refer.

    JavaScript as the same versions wrote it stays. Raises IsolossError if they cannot be written.
    """
    write_atomically(folder / ASSETS / "style.css", _style())
    script = folder / ASSETS / "charts.js"
    if not (script.exists() and _is_charts_script(script.read_bytes())):
        write_atomically(script, _charts_script())


@cache
def _style() -> str:
    """All rules, with those that put charts' colours into their places on dark ground."""
    return f"{source('style.css')}@media screen and (prefers-color-scheme: dark) {{ {on_dark_ground()} }}\n"


@cache
def _charts_script() -> str:
    """Vega, Vega-Lite, their embedding and its use.

    Bundling them takes more than a second, so that the bundle is kept among the user's cached files.
    """
    cached = default_cache() / "charts.js"
    with suppress(OSError):
        content = cached.read_bytes()
        if _is_charts_script(content):
            return content.decode()
    snippet = f"window.vegaEmbed = vegaEmbed;\n{source('charts.js')}"
    bundle: str = vl_convert.javascript_bundle(snippet, vl_version=_vega_lite())
    script = _stamp(bundle.encode()) + bundle
    with suppress(OSError, IsolossError):  # where there is no place to keep it, it is made again
        write_atomically(cached, script)
    return script


def _is_charts_script(content: bytes) -> bool:
    first, end, bundle = content.partition(b"\n")
    return first + end == _stamp(bundle).encode()


def _stamp(bundle: bytes) -> str:
    """The script's first line, which records what it is made of, and the digest of the rest."""
    ours, whole = (sha256(each).hexdigest()[:12] for each in (source("charts.js").encode(), bundle))
    versions = f"Vega-Lite {_vega_lite()}, bundled by vl-convert {version('vl-convert-python')}"
    return f"// {versions}, and {ours}: {whole}\n"


def _vega_lite() -> str:
    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])


def rendered(template: str, **context: Any) -> str:
    """The template of that name, rendered with its context."""
    return _environment().get_template(template).render(**context)


def source(template: str) -> str:
    """The source of the template of that name."""
    return PackageLoader("isoloss.report").get_source(_environment(), template)[0]


def as_script_data(value: Any) -> Markup:
    r"""JSON that may be placed inside a script element.

    >>> as_script_data({"title": "</script>"})
    Markup('{"title": "\\u003c/script>"}')
    """
    return Markup(json.dumps(value).replace("<", "\\u003c"))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("isoloss.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": as_text,
        "in_brief": in_brief,
        "interval_picture": interval_picture,
        "in_numbers": in_numbers,
    }
    return environment


def json_link(name: str) -> Markup:
    """A link to the numbers of the page of that name."""
    link = Markup('<p class="downloads"><a href="{}/{}.json" download>JSON, unrounded</a></p>')
    return link.format(FILES, name)
