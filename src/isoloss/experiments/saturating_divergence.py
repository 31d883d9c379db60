"""Claims of Figure 9: even the logarithm of the KL divergence saturates, over steps and over sizes."""

from isoloss.experiments.claims import Claim
from isoloss.experiments.figure_1_claims import WHY_WINDOW
from isoloss.experiments.shown_task import ShownTask
from isoloss.experiments.statistics.along_runs import LastDoubling, MeanWithinRuns
from isoloss.experiments.statistics.region import below
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW
from isoloss.experiments.statistics.sizes import last_doubling_of_width

PAPER = "“Even with the log of the KL divergence [...] the models are saturating” (A.7; no number given)"


def divergence_saturates(task: ShownTask) -> tuple[Claim, ...]:
    """The claims of one panel."""
    return tuple(
        Claim(
            name=f"{task.key}-saturates-over-{what}",
            sentence=f"{task.title}: the KL divergence has come to rest {how}.",
            paper=PAPER,
            measure=f"fall of KL over the last doubling of {what}, over the loss{whose}",
            unit="",
            claimed=below(LOSS_WINDOW),
            statistic=task.statistic(statistic),
            reason=WHY_WINDOW,
        )
        for what, how, whose, statistic in (
            ("steps", "as training proceeds", ", mean over runs", MeanWithinRuns(LastDoubling("kl"))),
            (
                "width",
                "as models grow",
                ", between the two widest at the last checkpoint, per doubling",
                last_doubling_of_width,
            ),
        )
    )
