"""The charts of Figure 1: dots with error bars on both axes, and curves over steps."""

from dataclasses import dataclass

import altair as alt
import polars as pl


@dataclass(frozen=True)
class Axis:
    """A column to draw, its error's column (half the bar's length; empty for none), and its title."""

    column: str
    error: str
    title: str


LOSS = Axis("loss", "kl_error", "exact pre-training loss (nats)")
ACCURACY = Axis("accuracy", "accuracy_deviation", "linear probe accuracy")
TRACE = Axis("trace", "trace_error", "trace of the Hessian (Fisher form)")
_LEGEND = alt.Legend(title="width", orient="top", symbolOpacity=1)
KL = Axis("kl", "kl_error", "KL(law || model) (nats)")


def scatter(dots: pl.DataFrame, x: Axis, y: Axis) -> alt.LayerChart:
    """Every checkpoint a dot, with error bars on both axes; colour and shape tell the width.

    >>> dots = pl.DataFrame({"run": ["r"], "width": [16], "seed": [1], "step": [9], "loss": [1.0],
    ...     "kl_error": [0.1], "accuracy": [0.9], "accuracy_deviation": [0.01], "trace": [3.0],
    ...     "trace_error": [0.2], "kl": [0.1]})
    >>> len(scatter(dots, LOSS, ACCURACY).layer)
    3
    """
    base = alt.Chart(_with_bars(dots, x, y))
    across = base.mark_rule(opacity=0.45).encode(
        x=_position(alt.X, f"{x.column}_low", x.title), x2=f"{x.column}_high", y=f"{y.column}:Q"
    )
    up = base.mark_rule(opacity=0.45).encode(
        x=f"{x.column}:Q", y=_position(alt.Y, f"{y.column}_low", y.title), y2=f"{y.column}_high"
    )
    points = base.mark_point(filled=True, size=70, opacity=0.9).encode(
        x=_position(alt.X, x.column, x.title),
        y=_position(alt.Y, y.column, y.title),
        shape=_width_shape(dots),
        tooltip=_tooltip(x, y),
    )
    points = points.add_params(alt.selection_interval(name=f"zoom_{x.column}_{y.column}", bind="scales"))
    color = _width_color(dots)
    return alt.LayerChart(layer=[layer.encode(color=color) for layer in (across, up, points)])


def curves(checkpoints: pl.DataFrame, y: Axis, saturated_from: int) -> alt.LayerChart:
    """One quantity over steps, a line a run; the dashed rule marks where the dots of the scatter begin."""
    base = alt.Chart(_with_bars(checkpoints, Axis("step", "", "step"), y))
    x = alt.X("step:Q", title="pre-training step", scale=alt.Scale(type="log"))
    color = _width_color(checkpoints)
    lines = base.mark_line(opacity=0.5).encode(x=x, y=f"{y.column}:Q", detail="run:N", color=color)
    up = base.mark_rule(opacity=0.45).encode(
        x=x, y=_position(alt.Y, f"{y.column}_low", y.title), y2=f"{y.column}_high", color=color
    )
    points = base.mark_point(filled=True, size=45).encode(
        x=x,
        y=_position(alt.Y, y.column, y.title),
        color=color,
        shape=_width_shape(checkpoints),
        tooltip=_tooltip(Axis("step", "", "step"), y),
    )
    boundary = (
        alt.Chart(pl.DataFrame({"step": [saturated_from]}))
        .mark_rule(strokeDash=[5, 4], color="#555")
        .encode(x=alt.X("step:Q", title="pre-training step"))
    )
    points = points.add_params(alt.selection_interval(name=f"zoom_step_{y.column}", bind="scales"))
    return alt.LayerChart(layer=[boundary, lines, up, points])


def _width_color(frame: pl.DataFrame) -> alt.Color:
    # Ordered in lightness and without the palest tones, so that sizes stay apart in black and white.
    scheme = alt.SchemeParams(name="viridis", extent=[0.85, 0.0])
    return alt.Color("width:O", scale=alt.Scale(scheme=scheme, domain=_widths(frame)), legend=_LEGEND)


def _width_shape(frame: pl.DataFrame) -> alt.Shape:
    return alt.Shape("width:O", scale=alt.Scale(domain=_widths(frame)), legend=_LEGEND)


def _widths(frame: pl.DataFrame) -> list[int]:
    # Named for color and shape alike: only equal domains share one legend.
    return sorted(int(width) for width in frame["width"].unique())


def _with_bars(frame: pl.DataFrame, *axes: Axis) -> pl.DataFrame:
    for axis in axes:
        error = pl.col(axis.error).fill_null(0.0) if axis.error else pl.lit(0.0)
        frame = frame.with_columns(
            (pl.col(axis.column) - error).alias(f"{axis.column}_low"),
            (pl.col(axis.column) + error).alias(f"{axis.column}_high"),
        )
    return frame


def _position(channel: type, column: str, title: str) -> alt.X | alt.Y:
    axis: alt.X | alt.Y = channel(f"{column}:Q", title=title, scale=alt.Scale(zero=False, nice=True))
    return axis


def _tooltip(*axes: Axis) -> list[alt.Tooltip]:
    shown = [alt.Tooltip("run:N", title="run"), alt.Tooltip("step:Q", title="step", format=",")]
    for axis in axes:
        if axis.column == "step":
            continue
        shown.append(alt.Tooltip(f"{axis.column}:Q", title=axis.title, format=".5g"))
        if axis.error:
            shown.append(alt.Tooltip(f"{axis.error}:Q", title="± error bar", format=".2g"))
    return shown
