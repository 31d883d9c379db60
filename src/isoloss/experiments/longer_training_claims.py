"""Claims about training far past saturation, the paper's and those against it; fixed beforehand."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.statistics.region import above, below
from isoloss.experiments.statistics.same_loss import Comparison, doublings, percent_points

OVER_TRAINED = "beyond the paper: Springer et al. 2025 report that over-trained models"


@dataclass(frozen=True)
class ChangeSince:
    """A claim's statistic: mean over runs of `compare(at the last checkpoint, at step since)`."""

    column: str
    since: int
    compare: Comparison

    def __call__(self, runs: Sequence[pl.DataFrame]) -> float:
        """See the class; nan for no runs, or runs without that step."""
        changes = [
            self.compare(run[self.column][-1], before)
            for run in runs
            for before in run.filter(step=self.since)[self.column]
        ]
        return float(np.mean(changes)) if changes else float("nan")


def longer_training_claims(usual_end: int, rise: str) -> tuple[Claim, ...]:
    """What comes after step `usual_end`, where the other runs end; `rise` is the sensitivity's column."""
    last = f"the last checkpoint, against step {usual_end:,}"
    return (
        Claim(
            name="longer-is-better-by-probe",
            sentence="Training on far past saturation goes on improving a linear probe.",
            paper="accuracy “continues increasing” after the loss has converged (Section 2.3, Figure 2)",
            measure=f"mean over runs of the probe's accuracy at {last}",
            unit="percent points",
            claimed=above(0.0),
            statistic=ChangeSince("accuracy", usual_end, percent_points),
        ),
        Claim(
            name="longer-is-flatter",
            sentence="Training on far past saturation goes on making the minimum flatter.",
            paper="the trace falls with SGD's noise as long as training goes on (Theorem 3.3, Figure 4)",
            measure=f"mean over runs of log2 of the ratio of traces at {last}",
            unit="doublings",
            claimed=below(0.0),
            statistic=ChangeSince("trace", usual_end, doublings),
        ),
        Claim(
            name="longer-harms-fine-tuning",
            sentence="Training on far past saturation makes the model worse after fine-tuning.",
            paper=f"{OVER_TRAINED} are worse after fine-tuning",
            measure=f"mean over runs of the accuracy after fine-tuning of {last}",
            unit="percent points",
            claimed=below(0.0),
            statistic=ChangeSince("fine_tuned", usual_end, percent_points),
        ),
        Claim(
            name="longer-is-more-sensitive",
            sentence="Training on far past saturation makes the loss more sensitive to noise on the weights.",
            paper=f"{OVER_TRAINED} are more sensitive to Gaussian noise",
            measure=f"mean over runs of log2 of the ratio of the loss's rises under noise at {last}",
            unit="doublings",
            claimed=above(0.0),
            statistic=ChangeSince(rise, usual_end, doublings),
        ),
    )
