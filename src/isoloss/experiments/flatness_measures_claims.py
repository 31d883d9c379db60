"""Claims on which measure of flatness ranks accuracy best; beyond the paper, fixed beforehand."""

from isoloss.experiments.claims import Claim
from isoloss.experiments.statistics.rank_correlation import Advantage, PartialRanking, Ranking
from isoloss.experiments.statistics.region import above

OURS = "beyond the paper, which shows the trace alone"
GIVEN = ("loss", "parameters")


def _trace_beats(measure: str, words: str) -> Claim:
    return Claim(
        name=f"trace-beats-{measure.replace('_', '-')}",
        sentence=f"The trace ranks downstream accuracy better than {words} does.",
        paper=OURS,
        measure=f"Spearman(−trace, accuracy) minus Spearman(−{words}, accuracy) over all checkpoints",
        unit="",
        claimed=above(0.0),
        statistic=Advantage(Ranking("trace"), Ranking(measure)),
    )


CLAIMS = (
    Claim(
        name="trace-ranks-accuracy",
        sentence="Over sizes, steps and update rules after saturation, the flatter models do better.",
        paper="the trace “strongly correlates with the downstream performance” (Section 1; no number given)",
        measure="Spearman(−trace, accuracy) over all checkpoints",
        unit="",
        claimed=above(0.0),
        statistic=Ranking("trace"),
    ),
    Claim(
        name="trace-ranks-given-loss-and-size",
        sentence="Among checkpoints alike in loss and size, too, the flatter do better.",
        paper=OURS,
        measure="partial Spearman of −trace with accuracy given loss and number of parameters",
        unit="",
        claimed=above(0.0),
        statistic=PartialRanking("trace", given=GIVEN),
    ),
    _trace_beats("normalised_trace", "the trace normalised by the weights' size"),
    _trace_beats("top_eigenvalue", "the top eigenvalue of the Hessian"),
    _trace_beats("gradient_norm", "the gradient's norm"),
    _trace_beats("sam_0.05", "SAM's sharpness at radius 0.05"),
)
