"""What a chart becomes: a picture of Vega-Lite's, or ready HTML where a picture is no use."""

from typing import Any

import altair as alt
from markupsafe import Markup

CHART_WIDTH, CHART_HEIGHT = 360, 300
STACKED_WIDTH, STACKED_HEIGHT = 560, 170

THEME: dict[str, Any] = {
    "font": "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif",
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal", "gridColor": "#e6e6e6"},
    "axisY": {"minExtent": 44},  # charts one above another begin at one place
    "legend": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
    "view": {"stroke": None},
}
"""How all charts look, on pages and as pictures."""

Drawing = alt.LayerChart | Markup

NOTHING = Markup('<p class="nothing">Nothing has been measured for this chart yet.</p>')
