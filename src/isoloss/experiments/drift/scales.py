"""How long and at which paces the drift is followed at each scale."""

from isoloss.experiments.chosen_languages import second_grammar, third_grammar
from isoloss.experiments.drift.clock import Pace
from isoloss.experiments.drift.runs import DriftRuns
from isoloss.experiments.planned_run import ReadyLanguage

SMOKE = DriftRuns(
    widths=(16,),
    paces=(Pace(0.4, 8), Pace(0.2, 8)),
    times=(0.01, 0.02, 0.03),
    control_checkpoints=2,
    rate_sentences=8,
)

LAPTOP = DriftRuns(
    widths=(32, 48),
    paces=(Pace(0.2, 32), Pace(0.1, 32), Pace(0.4, 128), Pace(0.2, 128), Pace(0.4, 64)),
    times=(0.0125, 0.03, 0.08, 0.2),
    control_checkpoints=2,
    rate_sentences=320,
)
"""Paces whose η²/B differ eightfold: as far apart as ten minutes on two cores allow, since to one τ a pace
takes 4Bτ/η² steps, and so 4τ(B/η)² sentences, and η/B must be small for SGD to add little to the loss.
Of pilot runs the trace has more than halved by the last of `times`, and half of that by the first."""

PAPER = DriftRuns(
    widths=(512, 1024),
    paces=(Pace(0.2, 256), Pace(0.1, 256), Pace(0.4, 1024), Pace(0.2, 1024), Pace(0.4, 512)),
    times=(0.0125, 0.03, 0.08, 0.2),
    control_checkpoints=3,
    rate_sentences=1000,
)
"""The paper's rate and batch (B.2: 1e-3 and 4,096) reach τ = 7e-6 in its 120,000 steps. No pilot has been run
at this scale."""


def night() -> DriftRuns:
    """Three languages, η²/B sixteenfold apart, and to ten times the laptop's last time."""
    return DriftRuns(
        widths=(32, 64),
        paces=(*LAPTOP.paces, Pace(0.1, 64), Pace(0.05, 16)),
        times=(0.0125, 0.03, 0.08, 0.2, 0.5, 1.0, 2.0),
        control_checkpoints=4,
        rate_sentences=1000,
        other_languages=(
            ("second grammar", ReadyLanguage(second_grammar())),
            ("third grammar", ReadyLanguage(third_grammar())),
        ),
    )
