"""Claims of Figures 3 and 8: at one loss, larger models do better downstream."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.figure_1_claims import WHY_WINDOW
from isoloss.experiments.shown_task import PROJECTED, ShownTask
from isoloss.experiments.statistics.along_runs import MeanWithinRuns, divergence_over_entropy, in_points
from isoloss.experiments.statistics.region import above, below, within
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW, percent_points
from isoloss.experiments.statistics.sizes import GapBetweenWidths, OfNarrowest, SlopeOverWidths


def larger_is_better(task: ShownTask, paper: str) -> Claim:
    """That accuracy rises with size at one loss; `paper` is what the paper says of this task."""
    return Claim(
        name=f"{task.key}-larger-is-better",
        sentence=f"{task.title}: at one loss larger models do better downstream.",
        paper=paper,
        measure=(
            "mean over seeds of the slope of probe accuracy per doubling of width, all widths at the "
            "lowest loss that all reach, and with features projected to one dimension"
        ),
        unit="percent points per doubling",
        claimed=above(0.0),
        statistic=task.statistic(SlopeOverWidths(in_points(PROJECTED))),
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
        statistic=task.statistic(GapBetweenWidths("loss")),
        kind="premise",
        reason=WHY_WINDOW,
    )


def projection_changes_little(task: ShownTask) -> Claim:
    """That a probe of one dimension for all widths is as good as that of each width's own."""
    return Claim(
        name=f"{task.key}-projection-changes-little",
        sentence=f"{task.title}: accuracy is nearly the same with features projected to one dimension.",
        paper="projection to 512 dimensions “does not affect the final performance” (A.5; no number given)",
        measure="mean over runs of projected minus plain accuracy at the last checkpoint",
        unit="percent points",
        claimed=within(1.0),
        statistic=task.statistic(gain_by_projection),
        kind="premise",
        reason="a fraction of what the paper's sizes gain, 2.0 to 6.9 points",
    )


def gain_by_projection(runs: Sequence[pl.DataFrame]) -> float:
    """Mean over runs of the projected features' accuracy less that of all, at the end, in percent points."""
    return float(np.mean([percent_points(run[PROJECTED][-1], run["accuracy"][-1]) for run in runs]))


def smallest_is_near_the_law(task: ShownTask) -> Claim:
    """That the smallest size has next to nothing left to learn."""
    return Claim(
        name=f"{task.key}-smallest-near-the-law",
        sentence=f"{task.title}: the smallest model is already close to the least loss.",
        paper="“the smallest model is already close to the minimal loss” (Figure 3; no number given)",
        measure="mean over the narrowest's runs of KL at the last checkpoint, over the law's entropy",
        unit="",
        claimed=below(LOSS_WINDOW),
        statistic=task.statistic(OfNarrowest(MeanWithinRuns(divergence_over_entropy))),
        kind="premise",
        reason="the window of one loss",
    )
