"""Figure 5's claims: larger is flatter in one parameter space, and flatter is better; fixed beforehand."""

from isoloss.experiments.claims import Claim
from isoloss.experiments.figure_1_claims import ASSOCIATION, WHY_ASSOCIATION
from isoloss.experiments.statistics.along_runs import in_doublings, in_points
from isoloss.experiments.statistics.rank_correlation import PartialRanking
from isoloss.experiments.statistics.region import above, below
from isoloss.experiments.statistics.sizes import SlopeOverWidths

FORMS = ("exact", "paper")
AT_ONE_LOSS = "all widths of a seed at the lowest loss that all reach"


def _larger_is_flatter(form: str) -> Claim:
    return Claim(
        name=f"larger-is-flatter-{form}",
        sentence=f"At one loss and enlarged to one shape ({form} form), larger models are flatter.",
        paper="the trace falls from 19.8 to 12.6, 0.65 doublings (Section 4, Figure 5)",
        measure=f"mean over seeds of the slope of log2(enlarged trace) per doubling of width, {AT_ONE_LOSS}",
        unit="doublings per doubling",
        claimed=below(0.0),
        statistic=SlopeOverWidths(in_doublings(f"trace_{form}")),
    )


def _flatter_is_better(form: str) -> Claim:
    return Claim(
        name=f"flatter-is-better-{form}",
        sentence=f"Among models alike in loss, enlarged to one shape ({form} form), the flatter do better.",
        paper="the trace “correlates with downstream performance” (Figure 5; no number given)",
        measure="partial Spearman of −enlarged trace with accuracy given KL, over the dots of all sizes",
        unit="",
        claimed=above(ASSOCIATION),
        statistic=PartialRanking(f"trace_{form}", given=("kl",)),
        reason=WHY_ASSOCIATION,
        limit=1.0,
    )


CLAIMS = (
    *(_larger_is_flatter(form) for form in FORMS),
    Claim(
        name="larger-is-better",
        sentence="At one loss larger models do better downstream.",
        paper="accuracy rises from 40.4 to 50.5 % (Section 4, Figure 5)",
        measure=f"mean over seeds of the slope of probe accuracy per doubling of width, {AT_ONE_LOSS}",
        unit="percent points per doubling",
        claimed=above(0.0),
        statistic=SlopeOverWidths(in_points("accuracy")),
    ),
    *(_flatter_is_better(form) for form in FORMS),
)
