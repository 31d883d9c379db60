"""A claim's interval as a small picture: where it lies beside the threshold."""

import math

from markupsafe import Markup

from isoloss.experiments.claims import Judgement

WIDTH, HEIGHT, MARGIN = 132, 18, 6


def interval_picture(judged: Judgement) -> Markup:
    """An SVG element: a dot with its interval, bounds as dashed lines, the region that is claimed shaded.

    Nothing where there is no interval. The numbers stand beside it in words, so it is not read aloud.
    """
    claimed, effect = judged.claim.claimed, judged.effect
    if not all(map(math.isfinite, (judged.low, judged.high, effect))):
        return Markup()
    least, most = min(judged.low, *claimed.bounds), max(judged.high, *claimed.bounds)
    # A bound is never at an edge: both of its sides are to be seen.
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
