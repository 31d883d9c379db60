"""Claims of Figure 2: once the loss has converged, accuracy goes on rising."""

from isoloss.experiments.claims import Claim
from isoloss.experiments.figure_1_claims import WHY_WINDOW
from isoloss.experiments.shown_task import ShownTask
from isoloss.experiments.statistics.along_runs import IMPROVEMENT, RANGE_OF_LOSS
from isoloss.experiments.statistics.region import above, below
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW


def one_loss_over_steps(task: ShownTask, paper: str) -> Claim:
    """That a run's saturated checkpoints have one loss, in the window of Figure 1."""
    return Claim(
        name=f"{task.key}-one-loss",
        sentence=f"{task.title}: from the first saturated checkpoint to the last the loss stays as it is.",
        paper=paper,
        measure="mean over runs of largest minus smallest loss of its saturated checkpoints, over their mean",
        unit="",
        claimed=below(LOSS_WINDOW),
        statistic=task.statistic(RANGE_OF_LOSS),
        kind="premise",
        reason=WHY_WINDOW,
    )


def later_is_better(task: ShownTask) -> Claim:
    """That accuracy rises along a run's saturated checkpoints."""
    return Claim(
        name=f"{task.key}-later-is-better",
        sentence=f"{task.title}: after the loss has converged, accuracy goes on rising.",
        paper="“the downstream accuracy continues increasing” (Section 2.3; no number given)",
        measure="mean over runs of the Theil-Sen slope of probe accuracy per doubling of steps",
        unit="percent points per doubling",
        claimed=above(0.0),
        statistic=task.statistic(IMPROVEMENT),
    )
