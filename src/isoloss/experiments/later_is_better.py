"""Claims of Figure 2: once the loss has converged, accuracy goes on rising."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.figure_1_claims import gain_in_accuracy
from isoloss.experiments.shown_task import ShownTask
from isoloss.experiments.statistics.region import above, below
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW


def change_of_loss(runs: Sequence[pl.DataFrame]) -> float:
    """How far the mean over runs of the loss moves from first to last checkpoint, as a share of the last."""
    first, last = (np.mean([run["loss"][place] for run in runs]) for place in (0, -1))
    return float(abs(first - last) / last)


def one_loss_over_steps(task: ShownTask, paper: str) -> Claim:
    """That a run's saturated checkpoints have one loss, in the window of Figure 1."""
    return Claim(
        name=f"{task.key}-one-loss",
        sentence=f"{task.title}: from the first saturated checkpoint to the last the loss stays as it is.",
        paper=paper,
        measure="change of the mean loss from the first to the last saturated checkpoint, over the last",
        unit="",
        claimed=below(LOSS_WINDOW),
        statistic=task.statistic(change_of_loss),
    )


def later_is_better(task: ShownTask) -> Claim:
    """That accuracy rises from a run's first saturated checkpoint to its last."""
    return Claim(
        name=f"{task.key}-later-is-better",
        sentence=f"{task.title}: after the loss has converged, accuracy goes on rising.",
        paper="“the downstream accuracy continues increasing” (Section 2.3; no number given)",
        measure="mean over runs of probe accuracy at the last saturated checkpoint minus at the first",
        unit="percent points",
        claimed=above(0.0),
        statistic=task.statistic(gain_in_accuracy),
    )
