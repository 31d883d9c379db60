"""The panel of a task over model sizes, which Figures 3 and 8 share."""

import polars as pl

from isoloss.experiments.axes import ACCURACY, BY_SEED, LOSS, SIZE
from isoloss.experiments.captions import loss_bars, probe_bars
from isoloss.experiments.scale import Scale
from isoloss.experiments.shown_task import ShownTask
from isoloss.panels import Lines, Panel


def size_panels(tasks: tuple[ShownTask, ...], table: pl.DataFrame, scale: Scale) -> tuple[Panel, ...]:
    """Loss and accuracy over widths at the last checkpoint, a panel for each task that has been measured."""
    return tuple(_panel(task, table, scale) for task in tasks if not task.last_rows(table).is_empty())


def _panel(task: ShownTask, table: pl.DataFrame, scale: Scale) -> Panel:
    caption = (
        f"{task.chance_and_ceiling(table)}A dot a run at step {task.runs.steps:,}, a line for each of "
        f"{len(scale.seeds)} seeds. {probe_bars(scale.sizes)}{loss_bars(scale.sizes)}"
    )
    charts = tuple(Lines(SIZE, y, BY_SEED, "seed") for y in (LOSS, ACCURACY))
    return Panel(task.key, task.title, caption, charts, task.last_rows(table))
