"""Plotting in the laboratory: what was measured over steps, or one quantity against another."""

from typing import Any

import altair as alt
import polars as pl

from isoloss.errors import BadInput
from isoloss.lab.measured import Measured, Row
from isoloss.lab.models import Run

HEIGHT, WIDTH = 150, 420
PLOTTED = "give what lab.loss, lab.trace or lab.probe returned"


def plot(*measured: Measured, against: Measured | None = None) -> alt.VConcatChart:
    """A chart for each quantity: over the steps of the runs, or `against` another quantity of the models.

    Bars are one standard error; those of an exact loss are of KL alone, since all models share the entropy's.
    Axes show the range of what was measured, not zero. The chart's own `save` writes PNG, SVG, PDF or HTML.
    Raises BadInput where nothing can be plotted.
    """
    if not measured:
        raise BadInput(f"there is nothing to plot; {PLOTTED}")
    for each in measured if against is None else (*measured, against):
        if not isinstance(each, Measured):
            raise _not_measured(each)
    charts = [_of_steps(each) if against is None else _of_two(against, each) for each in measured]
    together: alt.VConcatChart = alt.vconcat(*charts, spacing=12).resolve_scale(color="shared")
    return together


def _not_measured(given: object) -> BadInput:
    what = f"the run {given.name}" if isinstance(given, Run) else f"{given!r:.60}"
    return BadInput(f"{what} cannot be plotted; {PLOTTED}")


def _of_steps(measured: Measured) -> Any:
    rows = _with_bars(measured, "y")
    if rows["step"].null_count():
        raise BadInput("a model without a step has no place over steps; plot one quantity against another")
    doubling = 0 not in rows["step"]  # a run on from a model begins at step 0, and its clock is linear
    x = alt.X("step:Q", title="step", scale=alt.Scale(type="log" if doubling else "linear", nice=False))
    base = alt.Chart(rows).encode(x=x, color=alt.Color("model:N", title=None))
    near = _near(measured, rows)
    y = _axis(measured, [*rows["y_low"], *rows["y_high"], *near["y"]], "y")
    line = base.mark_line(point=alt.OverlayMarkDef(size=45)).encode(y=y)
    bars = base.mark_rule().encode(y="y_low:Q", y2="y_high:Q")
    return alt.layer(line, bars, *_dashed(near)).properties(width=WIDTH, height=HEIGHT)


def _of_two(x: Measured, y: Measured) -> Any:
    if [row.label for row in x.rows] != [row.label for row in y.rows]:
        raise BadInput(f"{y.quantity} and {x.quantity} are not of the same models, in the same order")
    rows = pl.concat([_with_bars(x, "x"), _with_bars(y, "y").drop("model", "step")], how="horizontal")
    across, up = (
        _axis(each, [*rows[f"{name}_low"], *rows[f"{name}_high"]], name)
        for each, name in ((x, "x"), (y, "y"))
    )
    base = alt.Chart(rows).encode(x=across, y=up, color=alt.Color("model:N", title=None))
    dots = base.mark_point(filled=True, size=60)
    upright = base.mark_rule().encode(x="x:Q", y="y_low:Q", y2="y_high:Q")
    lying = base.mark_rule().encode(y="y:Q", x="x_low:Q", x2="x_high:Q")
    return alt.layer(dots, upright, lying).properties(width=WIDTH, height=HEIGHT)


def _near(measured: Measured, rows: pl.DataFrame) -> pl.DataFrame:
    """The numbers of no model that lie near the data; others would flatten what is to be seen."""
    values = [*rows["y_low"], *rows["y_high"]]
    low, high = min(values), max(values)
    near = [(name, each.value) for name, each in measured.beside if 2 * low - high <= each.value <= high]
    return pl.DataFrame(near, schema={"name": pl.String, "y": pl.Float64}, orient="row")


def _dashed(near: pl.DataFrame) -> list[alt.Chart]:
    if near.is_empty():
        return []
    base = alt.Chart(near).encode(y="y:Q")
    words = base.mark_text(align="left", dx=4, dy=-7, color="#777").encode(x=alt.value(0), text="name:N")
    return [base.mark_rule(strokeDash=[5, 4], color="#777"), words]


def _with_bars(measured: Measured, name: str) -> pl.DataFrame:
    def with_bar(row: Row, error: float) -> dict[str, str | int | float | None]:
        value = row.estimate.value
        bars = {name: value, f"{name}_low": value - error, f"{name}_high": value + error}
        return {"model": row.model, "step": row.step, **bars}

    of_error = measured.kl or measured
    pairs = zip(measured.rows, of_error.rows, strict=True)
    return pl.DataFrame([with_bar(row, of.estimate.standard_error) for row, of in pairs])


def _axis(measured: Measured, values: list[float], name: str) -> Any:
    unit = "" if measured.unit.startswith("nats per") else f" ({measured.unit})"
    kind = alt.X if name == "x" else alt.Y
    scale = alt.Scale(zero=False, domainMin=min(values), domainMax=max(values), nice=5)
    title = f"{measured.quantity}{unit}"
    return kind(f"{name}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))
