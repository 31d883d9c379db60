"""Claims of Figures 4 and 10: along SGD the trace falls, and accuracy rises with it."""

from isoloss.experiments.claims import Claim
from isoloss.experiments.figure_1_claims import ASSOCIATION, WHY_ASSOCIATION
from isoloss.experiments.later_is_better import one_loss_over_steps
from isoloss.experiments.shown_task import ShownTask
from isoloss.experiments.statistics.along_runs import FLATTENING, IMPROVEMENT_BY_FLATTENING, MeanWithinRuns
from isoloss.experiments.statistics.rank_correlation import Ranking
from isoloss.experiments.statistics.region import above, below

POINTS_PER_HALVING = 2.0
"""Smallest rise of accuracy, in percent points as the trace halves, that would make flatness a cause."""

WHY_POINTS = (
    "under half of what accuracy rises along AdamW while the trace halves (5 points in pilots on the "
    "grammar): were flatness the cause, SGD's would have to bring at least that"
)


def flatter_and_better(task: ShownTask, paper_gain: str) -> tuple[Claim, ...]:
    """Figure 4's claims of one panel; `paper_gain` is the rise of accuracy that the paper gives."""
    return (
        one_loss_over_steps(task, "“after the validation pre-training loss converges” (Section 4)"),
        Claim(
            name=f"{task.key}-flatter",
            sentence=f"{task.title}: along SGD the trace of the Hessian falls.",
            paper="“a clear decreasing trend”, as Theorem 3.3 predicts (Section 4; no number given)",
            measure="mean over runs of the Theil-Sen slope of log2(trace) per doubling of steps",
            unit="doublings per doubling",
            claimed=below(0.0),
            statistic=task.statistic(FLATTENING),
        ),
        Claim(
            name=f"{task.key}-better",
            sentence=f"{task.title}: as the trace falls along SGD, accuracy rises.",
            paper=paper_gain,
            measure="mean over runs of the Theil-Sen slope of accuracy per halving of the trace",
            unit="percent points per halving",
            claimed=above(POINTS_PER_HALVING),
            statistic=task.statistic(IMPROVEMENT_BY_FLATTENING),
            reason=WHY_POINTS,
        ),
    )


def flatter_is_better(task: ShownTask) -> Claim:
    """Figure 10's claim of one panel."""
    return Claim(
        name=f"{task.key}-flatter-is-better",
        sentence=f"{task.title}: along SGD, flatter checkpoints do better.",
        paper="the trace “correlates with downstream performance” (Figure 10; no number given)",
        measure="mean over runs of Spearman(−trace, accuracy) over the checkpoints after the warm-up",
        unit="",
        claimed=above(ASSOCIATION),
        statistic=task.statistic(MeanWithinRuns(Ranking("trace"))),
        reason=WHY_ASSOCIATION,
        limit=1.0,
    )
