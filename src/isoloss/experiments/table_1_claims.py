"""Table 1's claims: same architecture, same loss, and yet worse downstream; fixed before the runs shown."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.rule_runs import ADAMW
from isoloss.experiments.statistics.region import above, below
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW, mean_at_same_loss, percent_points
from isoloss.experiments.statistics.seed_bootstrap import Statistic

ADVERSARIAL = "adversarial"
LOOKUP_TABLE = "lookup table"
TASK_A, TASK_B = "accuracy_a", "accuracy_b"


def surplus_loss(runs: Sequence[pl.DataFrame]) -> float:
    """Mean last loss of the adversary's runs over that of AdamW's, less 1."""
    adversarial, adamw = (
        np.mean([run["loss"][-1] for run in runs if run["rule"][0] == rule] or [np.nan])
        for rule in (ADVERSARIAL, ADAMW)
    )
    return float(adversarial / adamw - 1)


def least_advantage_over_lookup_table(column: str) -> Statistic:
    """The statistic: the worst run's accuracy at its last checkpoint less the table's, in percent points."""

    def statistic(runs: Sequence[pl.DataFrame]) -> float:
        trained = [run[column][-1] for run in runs if run["rule"][0] != LOOKUP_TABLE]
        table = [run[column][-1] for run in runs if run["rule"][0] == LOOKUP_TABLE]
        return percent_points(min(trained), table[0]) if trained and table else float("nan")

    return statistic


def _adversary_is_worse(task: str, column: str, paper: str) -> Claim:
    return Claim(
        name=f"adversary-worse-on-{task.lower()}",
        sentence=f"At the same loss the adversarially trained model does worse than AdamW's on task {task}.",
        paper=paper,
        measure="mean over seeds of accuracy at the pair's common loss, adversarial minus AdamW",
        unit="percent points",
        claimed=below(0.0),
        statistic=mean_at_same_loss(ADVERSARIAL, ADAMW, column, percent_points),
    )


def _lookup_table_is_worse(task: str, column: str, paper: str) -> Claim:
    return Claim(
        name=f"lookup-table-worse-on-{task.lower()}",
        sentence=f"The lookup table does worse than every trained model on task {task}.",
        paper=paper,
        measure="lowest accuracy of a run at its last checkpoint minus the lookup table's",
        unit="percent points",
        claimed=above(0.0),
        statistic=least_advantage_over_lookup_table(column),
    )


CLAIMS = (
    Claim(
        name="adversary-reaches-the-loss",
        sentence="The adversary reaches almost the same pre-training loss as AdamW.",
        paper="3.206 against 3.204 nats, 0.06 % more (Table 1)",
        measure="mean exact loss of the adversary's last checkpoints over that of AdamW's, less 1",
        unit="",
        claimed=below(LOSS_WINDOW),
        statistic=surplus_loss,
    ),
    _adversary_is_worse("A", TASK_A, "83.1 against 89.9 % (Table 1)"),
    _adversary_is_worse("B", TASK_B, "42.3 against 49.2 % (Table 1)"),
    _lookup_table_is_worse("A", TASK_A, "71.2 % against 83.1 and 89.9 % (Table 1; said of task B alone)"),
    _lookup_table_is_worse(
        "B", TASK_B, "39.7 % against 42.3 and 49.2 %, worse than all others (Section 2.3)"
    ),
)
