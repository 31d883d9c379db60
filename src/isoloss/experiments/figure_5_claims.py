"""Figure 5's claims: larger is flatter in one parameter space, and flatter is better; fixed beforehand."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.statistics.rank_correlation import Ranking
from isoloss.experiments.statistics.region import above, below
from isoloss.experiments.statistics.same_loss import Comparison, doublings, percent_points
from isoloss.experiments.statistics.seed_bootstrap import Statistic

FORMS = ("exact", "paper")


def largest_against_smallest(column: str, compare: Comparison) -> Statistic:
    """The statistic: `compare` of the widest's and the narrowest's means at their last checkpoints."""

    def statistic(runs: Sequence[pl.DataFrame]) -> float:
        widths = [run["width"][0] for run in runs]
        widest, narrowest = (
            float(np.mean([run[column][-1] for run in runs if run["width"][0] == width]))
            for width in (max(widths), min(widths))
        )
        return compare(widest, narrowest)

    return statistic


def last_checkpoints(statistic: Statistic) -> Statistic:
    """The statistic of each run's last checkpoint alone."""
    return lambda runs: statistic([run.tail(1) for run in runs])


def _larger_is_flatter(form: str) -> Claim:
    return Claim(
        name=f"larger-is-flatter-{form}",
        sentence=f"Enlarged to one shape ({form} form), larger models are flatter.",
        paper="the trace falls from 19.8 to 12.6, 0.65 doublings (Section 4, Figure 5)",
        measure="log2(mean trace of the widest / of the narrowest) at the last checkpoints",
        unit="doublings",
        claimed=below(0.0),
        statistic=largest_against_smallest(f"trace_{form}", doublings),
    )


def _flatter_is_better(form: str) -> Claim:
    return Claim(
        name=f"flatter-is-better-{form}",
        sentence=f"Over sizes enlarged to one shape ({form} form), the flatter models do better downstream.",
        paper="the trace “correlates with downstream performance” (Figure 5; no number given)",
        measure="Spearman(−enlarged trace, accuracy) over the runs' last checkpoints",
        unit="",
        claimed=above(0.0),
        statistic=last_checkpoints(Ranking(f"trace_{form}")),
    )


CLAIMS = (
    *(_larger_is_flatter(form) for form in FORMS),
    Claim(
        name="larger-is-better",
        sentence="At almost the same loss larger models do better downstream.",
        paper="accuracy rises from 40.4 to 50.5 % (Section 4, Figure 5)",
        measure="mean accuracy of the widest minus that of the narrowest at the last checkpoints",
        unit="percent points",
        claimed=above(0.0),
        statistic=largest_against_smallest("accuracy", percent_points),
    ),
    *(_flatter_is_better(form) for form in FORMS),
)
