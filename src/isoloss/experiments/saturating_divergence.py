"""Claims of Figure 9: even the logarithm of the KL divergence saturates, over steps and over sizes."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.larger_is_better import mean_by_width
from isoloss.experiments.shown_task import ShownTask
from isoloss.experiments.statistics.region import above

PAPER = "“Even with the log of the KL divergence [...] the models are saturating” (A.7; no number given)"


def levelling(x: Sequence[float], kl: Sequence[float]) -> float:
    """How much less steep log2 KL is over the second half of the points than over the first.

    Steepness is per doubling of x, between the first, the middle and the last point; nan for fewer than 3.

    >>> round(levelling([1, 2, 4], [0.4, 0.1, 0.05]), 9)
    1.0
    """
    if len(x) < 3:
        return float("nan")
    ends = [0, len(x) // 2, -1]
    across, down = (np.diff(np.log2(np.asarray(values, float)[ends])) for values in (x, kl))
    early, late = down / across
    return float(late - early)


def levelling_over_steps(runs: Sequence[pl.DataFrame]) -> float:
    """Mean over runs of `levelling` over their checkpoints."""
    return float(np.mean([levelling(run["step"].to_list(), run["kl"].to_list()) for run in runs]))


def levelling_over_sizes(runs: Sequence[pl.DataFrame]) -> float:
    """`levelling` over the widths, of the mean KL of each at the last checkpoint."""
    means = mean_by_width(runs, "kl")
    return levelling(list(means), list(means.values()))


def divergence_saturates(task: ShownTask) -> tuple[Claim, ...]:
    """The claims of one panel."""
    return tuple(
        Claim(
            name=f"{task.key}-saturates-over-{what}",
            sentence=f"{task.title}: log KL levels off {how}.",
            paper=PAPER,
            measure=f"slope of log2 KL per doubling of {what}, second half minus first{whose}",
            unit="doublings per doubling",
            claimed=above(0.0),
            statistic=task.statistic(statistic),
        )
        for what, how, whose, statistic in (
            ("steps", "as training proceeds", ", mean over runs", levelling_over_steps),
            ("width", "as models grow", ", at the last checkpoint", levelling_over_sizes),
        )
    )
