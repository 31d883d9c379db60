"""Jinja's templates of this folder, with everything escaped that they are handed."""

import json
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from isoloss.report.interval_picture import interval_picture
from isoloss.report.number import shown


def rendered(template: str, **context: Any) -> str:
    """The template of that name with its context."""
    return _environment().get_template(template).render(**context)


def source(template: str) -> str:
    """The template of that name as it stands."""
    text, _, _ = PackageLoader("isoloss.report").get_source(_environment(), template)
    return text


def as_script_data(value: Any) -> Markup:
    r"""JSON that may stand inside a script element.

    >>> as_script_data({"title": "</script>"})
    Markup('{"title": "<\\/script>"}')
    """
    return Markup(json.dumps(value).replace("</", "<\\/"))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("isoloss.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shown": shown, "interval_picture": interval_picture}
    return environment
