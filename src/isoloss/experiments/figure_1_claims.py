"""Figure 1's claims, their statistics and thresholds; fixed on pilot runs, before the runs shown."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.statistics.rank_correlation import rank_correlation
from isoloss.experiments.statistics.region import above, below
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW


def relative_spread_of_losses(runs: Sequence[pl.DataFrame]) -> float:
    """Largest minus smallest exact loss of all checkpoints, over their mean."""
    losses = pl.concat([run.select("loss") for run in runs])["loss"].to_numpy()
    return float(np.ptp(losses) / losses.mean())


def advantage_of_trace(runs: Sequence[pl.DataFrame]) -> float:
    """Spearman's correlation of flatness (minus the trace) with accuracy, less that of minus the loss."""
    dots = pl.concat([run.select("loss", "trace", "accuracy") for run in runs])
    accuracy = dots["accuracy"].to_numpy()
    by_trace = rank_correlation(-dots["trace"].to_numpy(), accuracy)
    return by_trace - rank_correlation(-dots["loss"].to_numpy(), accuracy)


def doublings_of_trace(runs: Sequence[pl.DataFrame]) -> float:
    """Mean over runs of log2(trace at the last checkpoint / trace at the first)."""
    return float(np.mean([np.log2(run["trace"][-1] / run["trace"][0]) for run in runs]))


def gain_in_accuracy(runs: Sequence[pl.DataFrame]) -> float:
    """Mean over runs of accuracy at the last checkpoint minus accuracy at the first, in percent points."""
    return float(100 * np.mean([run["accuracy"][-1] - run["accuracy"][0] for run in runs]))


CLAIMS = (
    Claim(
        name="one-loss",
        sentence="After saturation all models have the same pre-training loss.",
        paper="losses 3.204 to 3.208 nats, a spread of 0.12 % (Figure 1)",
        measure="largest minus smallest exact loss of all dots, over their mean",
        unit="",
        claimed=below(LOSS_WINDOW),
        statistic=relative_spread_of_losses,
    ),
    Claim(
        name="trace-ranks-better",
        sentence="The trace of the Hessian ranks downstream accuracy better than the loss does.",
        paper="the trace “correlates much better” (Figure 1; no number given)",
        measure="Spearman(−trace, accuracy) minus Spearman(−loss, accuracy) over all dots",
        unit="",
        claimed=above(0.0),
        statistic=advantage_of_trace,
    ),
    Claim(
        name="later-is-flatter",
        sentence="Within a run, after saturation, later checkpoints are flatter.",
        paper="the trace falls along a run (Figure 4; no number given)",
        measure="mean over runs of log2(trace at the last dot / at the first)",
        unit="doublings",
        claimed=below(0.0),
        statistic=doublings_of_trace,
    ),
    Claim(
        name="later-is-better",
        sentence="Within a run, after saturation, later checkpoints do better downstream.",
        paper="accuracy rises along a run (Figure 2; no number given)",
        measure="mean over runs of probe accuracy at the last dot minus at the first",
        unit="percent points",
        claimed=above(0.0),
        statistic=gain_in_accuracy,
    ),
)
