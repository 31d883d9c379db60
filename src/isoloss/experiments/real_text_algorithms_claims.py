"""What Tables 1 and 2 say of BookCorpus, as claims; fixed before any run with a reported seed."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.figure_1_claims import WHY_WINDOW
from isoloss.experiments.real_text_runs import ADAMW, BARE, SAM_RULE, ComparedTask
from isoloss.experiments.statistics.region import above, below
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW, doublings, mean_at_same_loss, percent_points

LOWER = {
    "SST-2": "89.5 against 90.8 % (Table 1)",
    "QNLI": "83.0 against 84.4 % (Table 1)",
    "RTE": "60.2 against 62.9 % (Table 2)",
}
RECOVERED = {
    "SST-2": "90.1 against 89.5 % (Table 1)",
    "QNLI": "84.4 against 83.0 % (Table 1)",
    "RTE": "62.5 against 60.2 % (Table 2)",
}


def difference_of_losses(runs: Sequence[pl.DataFrame]) -> float:
    """How far the mean last losses with and without regularisation lie apart, over that with it."""
    bare, adamw = (
        np.mean([run["loss"][-1] for run in runs if run["rule"][0] == rule] or [np.nan])
        for rule in (BARE, ADAMW)
    )
    return float(abs(bare / adamw - 1))


def claims_of(tasks: Sequence[ComparedTask]) -> tuple[Claim, ...]:
    """The claims on loss and trace, and two for each task."""
    return (
        Claim(
            name="same-loss-without-regularisation",
            sentence="Without dropout and weight decay the validation loss is almost the same.",
            paper="1.85 and 1.85 nats (Tables 1 and 2)",
            measure="difference of the mean losses at the last checkpoints, over AdamW's",
            unit="",
            claimed=below(LOSS_WINDOW),
            statistic=difference_of_losses,
            kind="premise",
            reason=WHY_WINDOW,
        ),
        Claim(
            name="sharper-without-regularisation",
            sentence="At the same loss, a model without dropout and weight decay is at a sharper minimum.",
            paper="34.91 against 24.55, 0.51 doublings (Table 2)",
            measure="mean over seeds of log2(trace without / with regularisation) at the pair's common loss",
            unit="doublings",
            claimed=above(0.0),
            statistic=mean_at_same_loss(BARE, ADAMW, "trace", doublings),
        ),
        Claim(
            name="flatter-by-sam",
            sentence="At the same loss, SAM makes a model without dropout and weight decay flatter.",
            paper="22.15 against 34.91, -0.66 doublings (Table 2)",
            measure="mean over seeds of log2(SAM's trace / that without SAM) at the pair's common loss",
            unit="doublings",
            claimed=below(0.0),
            statistic=mean_at_same_loss(SAM_RULE, BARE, "trace", doublings),
        ),
        *(claim for task in tasks for claim in _of_task(task)),
    )


def _of_task(task: ComparedTask) -> tuple[Claim, Claim]:
    slug, name = task.papers.lower(), task.source.name
    return (
        Claim(
            name=f"worse-without-regularisation-{slug}",
            sentence=f"{name}: at the same loss, a model without dropout and weight decay does worse.",
            paper=LOWER[task.papers],
            measure="mean over seeds of accuracy at the pair's common loss, without minus with",
            unit="percent points",
            claimed=below(0.0),
            statistic=mean_at_same_loss(BARE, ADAMW, task.column, percent_points),
        ),
        Claim(
            name=f"better-by-sam-{slug}",
            sentence=f"{name}: at the same loss, SAM mends what a model without regularisation lacks.",
            paper=RECOVERED[task.papers],
            measure="mean over seeds of accuracy at the pair's common loss, SAM minus without SAM",
            unit="percent points",
            claimed=above(0.0),
            statistic=mean_at_same_loss(SAM_RULE, BARE, task.column, percent_points),
        ),
    )
