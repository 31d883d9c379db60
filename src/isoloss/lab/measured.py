"""What the laboratory has measured, a number with its error for each model: as table, frame or chart."""

from dataclasses import dataclass, replace
from typing import Any

import altair as alt
import polars as pl
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.lab.models import Run
from isoloss.results.estimate import Estimate, paired_difference


@dataclass(frozen=True, repr=False)
class Row:
    """A model's number: its name, its step if any, the estimate, and the values it is the mean of.

    `digest` is the model's, by which a card knows its numbers: models of several runs may have one
    name. `run_digest` tells its run.
    """

    model: str
    step: int | None
    estimate: Estimate
    values: Float[Tensor, " n"]
    digest: str
    run_digest: str = ""

    @property
    def label(self) -> str:
        """The model's name and step."""
        return self.model if self.step is None else f"{self.model}, step {self.step:,}"

    @property
    def weights(self) -> str:
        """The digest of the model's weights alone: a module may keep what it has read, beside them."""
        return self.digest.partition("-")[0]

    def __repr__(self) -> str:
        return f"{self.label}  {self.estimate}"


@dataclass(frozen=True, repr=False)
class Measured:
    """A quantity of several models on the same `n` sentences; prints as a table.

    `kl` is, of an exact loss, what of it is the model's: KL(distribution || model). `beside` are numbers
    of no model: the entropy, below which no loss can be, or a probe's accuracy without a model.
    """

    quantity: str
    unit: str
    seed: int
    rows: tuple[Row, ...]
    kl: "Measured | None" = None
    beside: tuple[tuple[str, Estimate], ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Row:
        return self.rows[number]

    def differences(self) -> "Measured":
        """Each other model's number minus the first's, sentence by sentence, with the error of that."""
        first, *others = self.rows
        rows = []
        for row in others:
            values = row.values - first.values
            rows.append(replace(row, estimate=paired_difference(row.values, first.values), values=values))
        if not rows:
            raise BadInput("a single model differs from nothing; measure at least two")
        return Measured(f"{self.quantity}, less that of {first.label}", self.unit, self.seed, tuple(rows))

    @property
    def frame(self) -> pl.DataFrame:
        """A row for each model: model, step, the quantity and its error; of an exact loss also KL's."""
        rows = []
        for number, row in enumerate(self.rows):
            of_kl = _columns("kl", self.kl[number].estimate) if self.kl else {}
            measured = _columns(self.quantity, row.estimate)
            rows.append({"model": row.model, "step": row.step, **measured, **of_kl})
        return pl.DataFrame(rows)

    def __repr__(self) -> str:
        n = self.rows[0].estimate.n
        lines = [f"{self.quantity} ({self.unit}), {n:,} sentences, seed {self.seed}"]
        wide = max(len(row.label) for row in self.rows)
        for number, row in enumerate(self.rows):
            kl = f"   KL {self.kl[number].estimate}" if self.kl else ""
            lines.append(f"  {row.label:{wide}}  {row.estimate}{kl}")
        lines += [f"  {name:{wide}}  {estimate}" for name, estimate in self.beside]
        return "\n".join(lines)


def _columns(name: str, estimate: Estimate) -> dict[str, float]:
    return {name: estimate.value, f"{name}_error": estimate.standard_error}


HEIGHT, WIDTH = 150, 420
PLOTTED = "give what lab.loss, lab.trace or lab.probe returned"


def plot(*measured: Measured, against: Measured | None = None) -> alt.VConcatChart:
    """A chart for each quantity: over the steps of the runs, or `against` another quantity of the models.

    Bars are one standard error; those of an exact loss are of KL alone, since all models share the entropy's.
    Axes show the range of what was measured, not zero. The chart's `save` writes PNG, SVG, PDF or HTML.
    Raises BadInput where nothing can be plotted, and over steps for two runs of one name.
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
    what = f"the run {given.name}" if isinstance(given, Run) else f"{given!r:.60}".splitlines()[0]
    return BadInput(f"{what} cannot be plotted; {PLOTTED}")


def _of_steps(measured: Measured) -> Any:
    rows = _with_bars(measured, "y")
    if rows["step"].null_count():
        raise BadInput("a model without a step has no place over steps; plot one quantity against another")
    labels = [row.label for row in measured.rows]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise _on_one_line(f"two models are called {twice[0]}")
    runs: dict[str, str] = {}
    for row in measured.rows:
        if runs.setdefault(row.model, row.run_digest) != row.run_digest:
            raise _on_one_line(f"two runs are called {row.model}")
    doubling = 0 not in rows["step"]  # a run on from a model begins at step 0, and its clock is linear
    x = alt.X("step:Q", title="step", scale=alt.Scale(type="log" if doubling else "linear", nice=False))
    base = alt.Chart(rows).encode(x=x, color=alt.Color("model:N", title=None))
    near = _near(measured, rows)
    y = _axis(measured, [*rows["y_low"], *rows["y_high"], *near["y"]], "y")
    line = base.mark_line(point=alt.OverlayMarkDef(size=45)).encode(y=y)
    bars = base.mark_rule().encode(y="y_low:Q", y2="y_high:Q")
    return alt.layer(line, bars, *_dashed(near)).properties(width=WIDTH, height=HEIGHT)


def _on_one_line(what: str) -> BadInput:
    return BadInput(
        f"{what}, and would be on one line; name them before measuring, as in lab.train(..., name='wide')"
    )


def _of_two(x: Measured, y: Measured) -> Any:
    if [row.weights for row in x.rows] != [row.weights for row in y.rows]:
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
