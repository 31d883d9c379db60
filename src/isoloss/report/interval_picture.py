"""A claim's interval as a small picture: where it lies beside the threshold."""

import math

from markupsafe import Markup

from isoloss.experiments.claims import Judgement

WIDTH, HEIGHT, MARGIN = 132, 18, 6


def interval_picture(judged: Judgement) -> Markup:
    """An SVG element: a dot with its interval, the threshold a dashed line, the claimed side shaded.

    Nothing where there is no interval. The numbers stand beside it in words, so it is not read aloud.
    """
    threshold, effect = judged.claim.threshold, judged.effect
    if not all(map(math.isfinite, (judged.low, judged.high, effect))):
        return Markup()
    least, most = min(judged.low, threshold), max(judged.high, threshold)
    # The threshold is never at an edge: both of its sides are to be seen.
    reach = (most - least or 1.0) * 0.15
    least, most = (least - reach, most + reach)

    def place(value: float) -> str:
        return f"{MARGIN + (WIDTH - 2 * MARGIN) * (value - least) / (most - least):.1f}"

    left, right = (place(threshold), f"{WIDTH}") if judged.claim.above else ("0", place(threshold))
    middle = HEIGHT / 2
    return Markup(
        f'<svg class="interval" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'aria-hidden="true">'
        f'<rect class="claimed" x="{left}" y="0" width="{float(right) - float(left):.1f}" height="{HEIGHT}"/>'
        f'<line class="threshold" x1="{place(threshold)}" x2="{place(threshold)}" y1="0" y2="{HEIGHT}"/>'
        f'<line x1="{place(judged.low)}" x2="{place(judged.high)}" y1="{middle}" y2="{middle}"/>'
        f'<circle cx="{place(effect)}" cy="{middle}" r="4"/></svg>'
    )
