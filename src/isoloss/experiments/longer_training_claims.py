"""Claims about training far past saturation, the paper's and those against it; fixed beforehand."""

from isoloss.experiments.claims import Claim
from isoloss.experiments.statistics.along_runs import (
    FromStep,
    MeanWithinRuns,
    Scaled,
    Slope,
    in_doublings,
    in_points,
)
from isoloss.experiments.statistics.region import above, below
from isoloss.experiments.statistics.seed_bootstrap import Statistic

OVER_TRAINED = "beyond the paper: Springer et al. 2025 report that over-trained models"


def _since(usual_end: int, of: Scaled) -> Statistic:
    return FromStep(usual_end, MeanWithinRuns(Slope(of)))


def longer_training_claims(usual_end: int, rise: str) -> tuple[Claim, ...]:
    """What comes after step `usual_end`, where the other runs end; `rise` is the sensitivity's column."""
    slope, since = (
        "mean over runs of the Theil-Sen slope of",
        f"per doubling of steps from {usual_end:,} on",
    )
    return (
        Claim(
            name="longer-is-better-by-probe",
            sentence="Training on far past saturation goes on improving a linear probe.",
            paper="accuracy “continues increasing” after the loss has converged (Section 2.3, Figure 2)",
            measure=f"{slope} the probe's accuracy {since}",
            unit="percent points per doubling",
            claimed=above(0.0),
            statistic=_since(usual_end, in_points("accuracy")),
        ),
        Claim(
            name="longer-is-flatter",
            sentence="Training on far past saturation goes on making the minimum flatter.",
            paper="the trace falls with SGD's noise as long as training goes on (Theorem 3.3, Figure 4)",
            measure=f"{slope} log2(trace) {since}",
            unit="doublings per doubling",
            claimed=below(0.0),
            statistic=_since(usual_end, in_doublings("trace")),
        ),
        Claim(
            name="longer-harms-fine-tuning",
            sentence="Training on far past saturation makes the model worse after fine-tuning.",
            paper=f"{OVER_TRAINED} are worse after fine-tuning",
            measure=f"{slope} the accuracy after fine-tuning {since}",
            unit="percent points per doubling",
            claimed=below(0.0),
            statistic=_since(usual_end, in_points("fine_tuned")),
        ),
        Claim(
            name="longer-is-more-sensitive",
            sentence="Training on far past saturation makes the loss more sensitive to noise on the weights.",
            paper=f"{OVER_TRAINED} are more sensitive to Gaussian noise",
            measure=f"{slope} log2 of the loss's rise under noise {since}",
            unit="doublings per doubling",
            claimed=above(0.0),
            statistic=_since(usual_end, in_doublings(rise)),
        ),
    )
