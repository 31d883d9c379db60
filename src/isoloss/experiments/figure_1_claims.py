"""Figure 1's claims, their statistics and bounds; fixed on pilot runs, before the runs shown."""

from isoloss.experiments.claims import Claim
from isoloss.experiments.statistics.along_runs import (
    FLATTENING,
    IMPROVEMENT,
    RANGE_OF_LOSS,
    MeanWithinRuns,
    divergence_over_entropy,
)
from isoloss.experiments.statistics.rank_correlation import Advantage, Ranking
from isoloss.experiments.statistics.region import above, below
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW
from isoloss.experiments.statistics.sizes import GapBetweenWidths

ASSOCIATION = 0.25
"""Smallest difference of rank correlations, and smallest rank correlation, that counts as “much better” or
as an association."""

WHY_ASSOCIATION = (
    "half of the way from no association to a strong one (Spearman 0.5); the paper shows a far larger one "
    "and gives no number"
)
DIVERGENCE_WINDOW = 0.004
"""Largest share of the entropy that counts as having come to rest where the paper's models did."""

WHY_WINDOW = "four times the paper's 0.12 %, and about what its losses lie above its entropy"

CLAIMS = (
    Claim(
        name="one-loss",
        sentence="Within a run, after saturation, the pre-training loss stays one loss.",
        paper="losses 3.204 to 3.208 nats, a spread of 0.12 % (Figure 1)",
        measure="mean over runs of largest minus smallest exact loss of the run's dots, over their mean",
        unit="",
        claimed=below(LOSS_WINDOW),
        statistic=RANGE_OF_LOSS,
        kind="premise",
        reason=WHY_WINDOW,
    ),
    Claim(
        name="sizes-have-one-loss",
        sentence="At the end models of all sizes have the same pre-training loss.",
        paper="losses 3.204 to 3.208 nats, a spread of 0.12 % (Figure 1)",
        measure="largest minus smallest of the widths' mean losses at the last checkpoint, over their mean",
        unit="",
        claimed=below(LOSS_WINDOW),
        statistic=GapBetweenWidths("loss"),
        kind="premise",
        reason=WHY_WINDOW,
    ),
    Claim(
        name="near-the-law",
        sentence="At the end what the models have not learnt of the law is a small share of its entropy.",
        paper="losses 3.204 to 3.208 over an entropy of 3.196 nats: 0.25 to 0.38 % (Figures 1 and 2)",
        measure="mean over runs of KL(law || model) at the last checkpoint, over the law's entropy",
        unit="",
        claimed=below(DIVERGENCE_WINDOW),
        statistic=MeanWithinRuns(divergence_over_entropy),
        kind="premise",
        reason="the largest share in the paper",
    ),
    Claim(
        name="trace-ranks-better",
        sentence="The trace of the Hessian ranks downstream accuracy much better than the loss does.",
        paper="the trace “correlates much better” (Figure 1; no number given)",
        measure=(
            "mean over runs of Spearman(−trace, accuracy) minus Spearman(−loss, accuracy) over the run's dots"
        ),
        unit="",
        claimed=above(ASSOCIATION),
        statistic=MeanWithinRuns(Advantage(Ranking("trace"), Ranking("loss"))),
        reason=WHY_ASSOCIATION,
        limit=2.0,
    ),
    Claim(
        name="later-is-flatter",
        sentence="Within a run, after saturation, later checkpoints are flatter.",
        paper="the trace falls along a run (Figure 4; no number given)",
        measure="mean over runs of the Theil-Sen slope of log2(trace) per doubling of steps",
        unit="doublings per doubling",
        claimed=below(0.0),
        statistic=FLATTENING,
    ),
    Claim(
        name="later-is-better",
        sentence="Within a run, after saturation, later checkpoints do better downstream.",
        paper="accuracy rises along a run (Figure 2; no number given)",
        measure="mean over runs of the Theil-Sen slope of probe accuracy per doubling of steps",
        unit="percent points per doubling",
        claimed=above(0.0),
        statistic=IMPROVEMENT,
    ),
)
