"""The law of one word as bars: the likeliest words, the true one marked, and all others together."""

from collections.abc import Sequence

import altair as alt
import polars as pl
from jaxtyping import Float
from torch import Tensor

from isoloss.report.drawing import CHART_HEIGHT

BARS, THICKEST = 12, 24
TRUE, OTHER, REST = "the word that stands there", "another word", "all others together"
_COLORS = {TRUE: "#b2441c", OTHER: "#3b6c8f", REST: "#bdbdbd"}


def law_table(law: Float[Tensor, " c"], words: Sequence[str], true: int) -> pl.DataFrame:
    """Rows of word, probability and kind: the BARS likeliest, word `true` wherever it ranks, and the rest.

    >>> import torch
    >>> law_table(torch.tensor([0.1, 0.7, 0.2]), ["a", "b", "c"], true=0)["word"].to_list()
    ['b', 'c', 'a']
    """
    ranked = law.sort(descending=True, stable=True).indices.tolist()
    shown = ranked[:BARS] if true in ranked[:BARS] else [*ranked[:BARS], true]
    rows = [(words[word], float(law[word]), TRUE if word == true else OTHER) for word in shown]
    if others := len(words) - len(shown):
        # A difference of sums could fall below zero.
        rest = sum(float(law[word]) for word in set(ranked) - set(shown))
        rows.append((f"all {others:,} others", rest, REST))
    return pl.DataFrame(rows, schema=["word", "probability", "kind"], orient="row")


def law_bars(table: pl.DataFrame) -> alt.LayerChart:
    """A bar a row of a `law_table`, in its order, with the probability at its end."""
    kinds = [kind for kind in _COLORS if kind in table["kind"].to_list()]
    highest = float(table["probability"].max())  # type: ignore[arg-type]
    base = alt.Chart(table).encode(
        x=alt.X(
            "probability:Q",
            title="probability",
            scale=alt.Scale(domain=[0, 1.12 * highest]),
            axis=alt.Axis(grid=False, tickCount=5),
        ),
        y=alt.Y("word:N", title=None, sort=None, axis=alt.Axis(labelFontSize=13, labelLimit=200)),
    )
    bars = base.mark_bar(size=min(THICKEST, 0.85 * CHART_HEIGHT / len(table))).encode(
        color=alt.Color(
            "kind:N",
            scale=alt.Scale(domain=kinds, range=[_COLORS[kind] for kind in kinds]),
            legend=alt.Legend(title=None, orient="top", labelLimit=300),
        ),
        tooltip=[
            alt.Tooltip("word:N"),
            alt.Tooltip("probability:Q", format=".4g"),
            alt.Tooltip("kind:N"),
        ],
    )
    numbers = base.mark_text(align="left", dx=4, fontSize=12).encode(
        text=alt.Text("probability:Q", format=".3~g")
    )
    return alt.LayerChart(layer=[bars, numbers]).properties(
        height=CHART_HEIGHT, description=f"Probabilities as bars: {len(table)}."
    )
