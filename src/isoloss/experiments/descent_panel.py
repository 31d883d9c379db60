"""The panel of a task along SGD, which Figures 4 and 10 share."""

import polars as pl

from isoloss.experiments.axes import (
    ACCURACY,
    BY_SEED,
    DESCENT_STEP,
    LOSS,
    TRACE,
    loss_bars,
    probe_bars,
    trace_bars,
)
from isoloss.experiments.descent_runs import DescentRuns
from isoloss.experiments.scales.scale import Scale
from isoloss.experiments.shown_task import ShownTask
from isoloss.panels import Dots, Lines, Panel

START = {"last checkpoint": "AdamW's last weights", "fresh weights": "fresh weights"}

Descending = tuple[tuple[ShownTask, DescentRuns], ...]
"""Tasks, and the SGD that is run for each."""


def descent_panels(shown: Descending, table: pl.DataFrame, scale: Scale) -> tuple[Panel, ...]:
    """Trace, accuracy and loss along SGD, a panel for each task that has been measured."""
    return tuple(
        _panel(task, descent, table, scale) for task, descent in shown if not task.rows(table).is_empty()
    )


def _panel(task: ShownTask, descent: DescentRuns, table: pl.DataFrame, scale: Scale) -> Panel:
    marked = descent.saturated_from
    caption = (
        f"{task.chance_and_ceiling(table)}A line for each of {len(scale.seeds)} seeds, width "
        f"{descent.width}, from {START[descent.start]}. Claims are judged on the checkpoints "
        f"from the end of SGD's warm-up (dashed line, step {marked:,}) on. "
        f"{trace_bars(scale.sizes)}{probe_bars(scale.sizes)}{loss_bars(scale.sizes)}"
    )
    trace, accuracy, loss = (
        Lines(DESCENT_STEP, y, BY_SEED, "run", marked=marked) for y in (TRACE, ACCURACY, LOSS)
    )
    charts = (trace, accuracy, loss, Dots(TRACE, ACCURACY, BY_SEED))
    return Panel(task.key, task.title, caption, charts, task.rows(table))
