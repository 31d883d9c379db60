"""Claims about update rules beyond the paper: at AdamW's loss, how flat and how good; fixed beforehand."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.figure_1_claims import ASSOCIATION, WHY_ASSOCIATION
from isoloss.experiments.rule_runs import ADAMW
from isoloss.experiments.statistics.rank_correlation import rank_correlation
from isoloss.experiments.statistics.region import above, below
from isoloss.experiments.statistics.same_loss import (
    doublings,
    mean_at_same_loss,
    pairs_at_same_loss,
    percent_points,
)

ACCURACY = "accuracy"
REGULARISED = "flatness-regularised"
PEERS = ("Muon", "Lion", "SOAP", "Sophia")
OURS = "beyond the paper"


def flatter_is_better(runs: Sequence[pl.DataFrame]) -> float:
    """Mean over seeds of Spearman's correlation over its pairs: flatter than AdamW by, better by.

    Only a seed's own pairs are ranked together: they share AdamW's run. nan for none.
    """
    seeds = dict.fromkeys(run["seed"][0] for run in runs)
    found = [_flatter_is_better([run for run in runs if run["seed"][0] == seed]) for seed in seeds]
    return float(np.mean(found)) if found else float("nan")


def _flatter_is_better(runs: Sequence[pl.DataFrame]) -> float:
    pairs = [pair for rule in (*PEERS, REGULARISED) for pair in pairs_at_same_loss(runs, rule, ADAMW)]
    traces, accuracies = (
        np.array([compare(pair.run.value(name).value, pair.reference.value(name).value) for pair in pairs])
        for name, compare in (("trace", doublings), (ACCURACY, percent_points))
    )
    return rank_correlation(-traces, accuracies)


def _is_flatter(rule: str, why: str) -> Claim:
    return Claim(
        name=f"{rule.lower()}-flatter",
        sentence=f"At the same loss {rule} is at a flatter minimum than AdamW.",
        paper=why,
        measure="mean over seeds of log2(trace / AdamW's trace) at the pair's common loss",
        unit="doublings",
        claimed=below(0.0),
        statistic=mean_at_same_loss(rule, ADAMW, "trace", doublings),
    )


CLAIMS = (
    _is_flatter(REGULARISED, f"{OURS}: Section D asks for an explicit regulariser"),
    Claim(
        name="flatness-regularised-better",
        sentence="At the same loss flatness-regularised training does better downstream than AdamW.",
        paper=f"{OURS}: Section D asks for an explicit regulariser",
        measure="mean over seeds of accuracy at the pair's common loss, minus AdamW's",
        unit="percent points",
        claimed=above(0.0),
        statistic=mean_at_same_loss(REGULARISED, ADAMW, ACCURACY, percent_points),
    ),
    *(_is_flatter(rule, OURS) for rule in PEERS),
    Claim(
        name="flatter-rules-do-better",
        sentence="Among update rules at AdamW's loss, the flatter minimum does better downstream.",
        paper=f"{OURS}: the paper's main claim (Section 4), across rules",
        measure=(
            "mean over seeds of Spearman's correlation over rules of −log2(trace / AdamW's) with accuracy "
            "minus AdamW's"
        ),
        unit="",
        claimed=above(ASSOCIATION),
        statistic=flatter_is_better,
        reason=WHY_ASSOCIATION,
        limit=1.0,
    ),
)
