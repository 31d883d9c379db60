"""The Jinja templates of this folder, with all their inputs escaped."""

import json
import math
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from isoloss.experiments.claims import Judgement
from isoloss.results.number import as_text

WIDTH, HEIGHT, MARGIN = 132, 18, 6


def rendered(template: str, **context: Any) -> str:
    """The template of that name, rendered with its context."""
    return _environment().get_template(template).render(**context)


def source(template: str) -> str:
    """The source of the template of that name."""
    text, _, _ = PackageLoader("isoloss.report").get_source(_environment(), template)
    return text


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
    environment.filters |= {"shown": as_text, "interval_picture": interval_picture, "in_numbers": in_numbers}
    return environment


def interval_picture(judged: Judgement) -> Markup:
    """An SVG element: a dot with its interval, bounds as dashed lines, the claimed region shaded.

    Empty if there is no interval. The numbers are beside it as text, so screen readers skip it.
    """
    claimed, effect = judged.claim.claimed, judged.effect
    if not all(map(math.isfinite, (judged.low, judged.high, effect))):
        return Markup()
    least, most = min(judged.low, *claimed.bounds), max(judged.high, *claimed.bounds)
    # A bound is never at an edge, so that both of its sides are visible.
    reach = (most - least or 1.0) * 0.15
    least, most = (least - reach, most + reach)

    def place(value: float) -> str:
        return f"{MARGIN + (WIDTH - 2 * MARGIN) * (value - least) / (most - least):.1f}"

    left = place(claimed.low) if math.isfinite(claimed.low) else "0"
    right = place(claimed.high) if math.isfinite(claimed.high) else f"{WIDTH}"
    middle = HEIGHT / 2
    bounds = "".join(
        f'<line class="threshold" x1="{place(bound)}" x2="{place(bound)}" y1="0" y2="{HEIGHT}"/>'
        for bound in claimed.bounds
    )
    return Markup(
        f'<svg class="interval" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'aria-hidden="true">'
        f'<rect class="claimed" x="{left}" y="0" width="{float(right) - float(left):.1f}" height="{HEIGHT}"/>'
        f"{bounds}"
        f'<line x1="{place(judged.low)}" x2="{place(judged.high)}" y1="{middle}" y2="{middle}"/>'
        f'<circle cx="{place(effect)}" cy="{middle}" r="4"/></svg>'
    )


def in_numbers(judged: Judgement) -> str:
    """What was measured, and the claim about it."""
    unit = f" {judged.claim.unit}".rstrip()
    if not math.isfinite(judged.effect):
        measured = "Undefined" if judged.runs else "Not measured"
    elif math.isfinite(judged.low + judged.high):
        measured = f"Measured {judged.effect:.3g} ({judged.low:.3g} to {judged.high:.3g}){unit}"
    else:
        measured = f"Measured {judged.effect:.3g}{unit}"
    more = f"; {judged.seeds_needed} seeds would decide it" if judged.seeds_needed else ""
    return f"{measured}, claimed {judged.claim.claimed}{more}."
