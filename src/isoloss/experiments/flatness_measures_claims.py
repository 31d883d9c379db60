"""Claims about which measure of flatness ranks accuracy best; beyond the paper, fixed beforehand."""

from isoloss.experiments.claims import Claim
from isoloss.experiments.figure_1_claims import ASSOCIATION, WHY_ASSOCIATION
from isoloss.experiments.statistics.rank_correlation import Advantage, PartialRanking
from isoloss.experiments.statistics.region import above

OURS = "beyond the paper, which shows the trace alone"
GIVEN = ("loss", "parameters")
ALIKE = "given loss and number of parameters, over all checkpoints"


def _trace_beats(measure: str, words: str) -> Claim:
    return Claim(
        name=f"trace-beats-{measure.replace('_', '-')}",
        sentence=f"Among checkpoints alike in loss and size the trace ranks accuracy better than {words}.",
        paper=OURS,
        measure=f"partial Spearman of −trace with accuracy minus that of −{words}, both {ALIKE}",
        unit="",
        claimed=above(ASSOCIATION),
        statistic=Advantage(PartialRanking("trace", given=GIVEN), PartialRanking(measure, given=GIVEN)),
        reason=WHY_ASSOCIATION,
        limit=2.0,
    )


CLAIMS = (
    Claim(
        name="trace-ranks-given-loss-and-size",
        sentence="Among checkpoints alike in loss and size, of all update rules, the flatter do better.",
        paper="the trace “strongly correlates with the downstream performance” (Section 1; no number given)",
        measure=f"partial Spearman of −trace with accuracy {ALIKE}",
        unit="",
        claimed=above(ASSOCIATION),
        statistic=PartialRanking("trace", given=GIVEN),
        reason=WHY_ASSOCIATION,
        limit=1.0,
    ),
    _trace_beats("normalised_trace", "the trace normalised by the weights' size"),
    _trace_beats("top_eigenvalue", "the top eigenvalue of the Hessian"),
    _trace_beats("gradient_norm", "the gradient's norm"),
    _trace_beats("sam_0.05", "SAM's sharpness at radius 0.05"),
)
