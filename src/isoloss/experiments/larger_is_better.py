"""Claims of Figures 3 and 8: at one loss, larger models do better downstream."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.shown_task import ShownTask
from isoloss.experiments.statistics.region import above, below
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW


def mean_by_width(runs: Sequence[pl.DataFrame], column: str) -> dict[int, float]:
    """The column at the runs' last checkpoints, its mean over those of each width, smallest width first."""
    last = pl.concat([run.tail(1).select("width", column) for run in runs])
    means = last.group_by("width").agg(pl.col(column).mean()).sort("width")
    return dict(means.rows())


def gain_from_size(runs: Sequence[pl.DataFrame]) -> float:
    """Mean accuracy of the largest width minus that of the smallest, in percent points; nan for one width."""
    means = list(mean_by_width(runs, "accuracy").values())
    return 100 * (means[-1] - means[0]) if len(means) > 1 else float("nan")


def gap_in_loss(runs: Sequence[pl.DataFrame]) -> float:
    """How far the mean losses of the widths lie apart, largest minus smallest over their mean."""
    means = np.array(list(mean_by_width(runs, "loss").values()))
    return float(np.ptp(means) / means.mean()) if len(means) > 1 else float("nan")


def larger_is_better(task: ShownTask, paper: str) -> Claim:
    """That accuracy rises with size; `paper` is what the paper says of this task."""
    return Claim(
        name=f"{task.key}-larger-is-better",
        sentence=f"{task.title}: the largest models do better downstream than the smallest.",
        paper=paper,
        measure="mean probe accuracy of the largest width minus that of the smallest, at the last checkpoint",
        unit="percent points",
        claimed=above(0.0),
        statistic=task.statistic(gain_from_size),
    )


def sizes_have_one_loss(task: ShownTask) -> Claim:
    """That all sizes have reached one loss, in the window of Figure 1."""
    return Claim(
        name=f"{task.key}-one-loss",
        sentence=f"{task.title}: models of all sizes have the same pre-training loss.",
        paper="“even with almost the same pre-training loss” (Figure 3; no number given)",
        measure="largest minus smallest of the widths' mean losses at the last checkpoint, over their mean",
        unit="",
        claimed=below(LOSS_WINDOW),
        statistic=task.statistic(gap_in_loss),
    )
