"""Claims of Figures 4 and 10: along SGD the trace falls, and accuracy rises with it."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.figure_1_claims import doublings_of_trace, gain_in_accuracy
from isoloss.experiments.later_is_better import one_loss_over_steps
from isoloss.experiments.shown_task import ShownTask
from isoloss.experiments.statistics.rank_correlation import rank_correlation
from isoloss.experiments.statistics.region import above, below


def rank_correlation_within_runs(runs: Sequence[pl.DataFrame]) -> float:
    """Mean over runs of Spearman's correlation of flatness (minus the trace) with accuracy.

    nan where one run's accuracy, or trace, is the same at all its checkpoints.
    """
    ranked = [rank_correlation(-run["trace"].to_numpy(), run["accuracy"].to_numpy()) for run in runs]
    return float(np.mean(ranked))


def flatter_and_better(task: ShownTask, paper_gain: str) -> tuple[Claim, ...]:
    """Figure 4's claims of one panel; `paper_gain` is the rise of accuracy that the paper gives."""
    return (
        one_loss_over_steps(task, "“after the validation pre-training loss converges” (Section 4)"),
        Claim(
            name=f"{task.key}-flatter",
            sentence=f"{task.title}: along SGD the trace of the Hessian falls.",
            paper="“a clear decreasing trend”, as Theorem 3.3 predicts (Section 4; no number given)",
            measure="mean over runs of log2(trace at the last checkpoint / at the first after warm-up)",
            unit="doublings",
            claimed=below(0.0),
            statistic=task.statistic(doublings_of_trace),
        ),
        Claim(
            name=f"{task.key}-better",
            sentence=f"{task.title}: as the trace falls along SGD, accuracy rises.",
            paper=paper_gain,
            measure="mean over runs of accuracy at the last checkpoint minus at the first after warm-up",
            unit="percent points",
            claimed=above(0.0),
            statistic=task.statistic(gain_in_accuracy),
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
        claimed=above(0.0),
        statistic=task.statistic(rank_correlation_within_runs),
    )
