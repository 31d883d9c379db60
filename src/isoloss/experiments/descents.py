"""SGD on the models of one width, from their last checkpoints or from fresh weights, with its pictures."""

import math
from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from isoloss.errors import BadInput
from isoloss.experiments.figures import (
    ACCURACY,
    BY_SEED,
    DESCENT_STEP,
    LOSS,
    TRACE,
    ShownTask,
    loss_bars,
    probe_bars,
    trace_bars,
)
from isoloss.experiments.planned_run import PlannedRun, continued, measured_at
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import runs_of_sizes, width_of
from isoloss.panels import Dots, Lines, Mark, Panel
from isoloss.pretraining.descent import SGD

START = {"last checkpoint": "AdamW's last weights", "fresh weights": "fresh weights"}


@dataclass(frozen=True)
class DescentRuns:
    """SGD on the models of one `width`, one run per seed, from their last checkpoints or from initialisation.

    The last checkpoints are nearest to the minimum from which Theorem 3.3 starts; from initialisation is how
    the paper pre-trains (B.2). There is no dropout: the theorem is about SGD on the loss itself, and the
    paper does not say. The first of `checkpoint_steps` may be early, to show where SGD starts; claims are
    judged on those after the warm-up. `averaging_horizon` is the number of steps over which checkpoint
    weights are averaged.
    """

    width: int
    update_rule: SGD
    batch_size: int
    steps: int
    checkpoint_steps: tuple[int, ...]
    averaging_horizon: int | None = None
    start: Literal["last checkpoint", "fresh weights"] = "last checkpoint"

    @property
    def drift_time(self) -> float:
        """η²k/4B, how long k steps at rate η and batch B drift along the minima (Theorem 3.3).

        >>> f"{DescentRuns(1024, SGD(), 4096, 120_000, ()).drift_time:.1e}"
        '7.3e-06'
        """
        return self.update_rule.learning_rate**2 * self.steps / (4 * self.batch_size)

    @property
    def saturated_from(self) -> int:
        """The end of the warm-up: the loss was already saturated, and from here on the rate is constant."""
        return math.ceil(self.update_rule.warm_up_share * self.steps)


def shown_descents(task: ShownTask, descent: DescentRuns, scale: Scale) -> tuple[PlannedRun, ...]:
    """SGD from the saturated models of its width, with exact loss, trace and probe at every checkpoint.

    Raises BadInput if no model has that width.
    """
    runs = task.runs
    chosen = tuple(model for model in runs.architectures if width_of(model) == descent.width)
    if not chosen:
        widths = ", ".join(str(width_of(model)) for model in runs.architectures)
        raise BadInput(f"no model of width {descent.width} is there to continue; choose {widths}")
    quantities = scale.sizes.loss(runs.evaluated), scale.sizes.trace(), task.probe(scale.sizes)
    origins = runs_of_sizes(replace(runs, architectures=chosen[:1]), scale.seeds, ())
    if descent.start == "last checkpoint":
        origins = tuple(continued(origin, origin.steps) for origin in origins)
    return task.labelled(
        [
            replace(
                run,
                name=f"sgd-{run.name}",
                architecture=replace(chosen[0], dropout=0.0),
                update_rule=descent.update_rule,
                steps=descent.steps,
                batch_size=descent.batch_size,
                checkpoint_steps=descent.checkpoint_steps,
                saturated_from=descent.saturated_from,
                measured=measured_at(descent.checkpoint_steps, *quantities),
                averaging_horizon=descent.averaging_horizon,
            )
            for run in origins
        ]
    )


Descending = tuple[tuple[ShownTask, DescentRuns], ...]
"""Tasks, and the SGD that is run for each."""


def descent_panels(
    shown: Descending, table: pl.DataFrame, scale: Scale, claims: tuple[str, ...]
) -> tuple[Panel, ...]:
    """Trace, accuracy and loss along SGD, a panel for each task that has been measured.

    A panel is the picture of its task's `claims`, which are named without the task's key.
    """
    panels = []
    for task, descent in shown:
        marked, rows = descent.saturated_from, task.rows(table)
        if rows.is_empty():
            continue
        caption = (
            f"{task.chance_and_ceiling(table)}One line for each of {rows['seed'].n_unique()} seeds, width "
            f"{descent.width}, starting from {START[descent.start]}. Claims are judged on the checkpoints "
            f"from the end of SGD's warm-up (dashed line, step {marked:,}) on. "
            f"{trace_bars(scale.sizes)}{probe_bars(scale.sizes)}{loss_bars(scale.sizes)}"
        )
        trace, accuracy, loss = (
            Lines(DESCENT_STEP, y, BY_SEED, "run", marked=Mark(marked, "warm-up ends"))
            for y in (TRACE, ACCURACY, LOSS)
        )
        charts = (trace, accuracy, loss, Dots(TRACE, ACCURACY, BY_SEED))
        shows = tuple(f"{task.key}-{claim}" for claim in claims)
        panels.append(Panel(task.key, task.title, caption, charts, rows, shows=shows))
    return tuple(panels)


def start_in_words(descent: DescentRuns) -> str:
    """From where a run begins, for a page."""
    if descent.start == "fresh weights":
        return "Here too SGD starts from fresh weights, without dropout or weight decay."
    return (
        "Here SGD starts from the last checkpoints of AdamW, without dropout or weight decay, so that only "
        "the gradient of the loss and its noise move the models. The first checkpoint is taken after one "
        "step and shows where SGD begins."
    )
