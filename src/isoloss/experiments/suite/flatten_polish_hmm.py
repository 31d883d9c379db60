"""Flatten, then polish, on a hidden Markov model: is what flatness does there the grammar's alone?"""

from dataclasses import replace

from isoloss.experiments.design import Design, Picture
from isoloss.experiments.equal_knowledge import by_label_noise, in_seconds
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.languages import ReadyLanguage, short_hmm
from isoloss.experiments.polished_models import polished_models
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import Schedule
from isoloss.experiments.shared.language_runs import laptop_transformers, seeds_at
from isoloss.experiments.suite.flatten_polish import DECIDED

SHORT = replace(
    DECIDED,
    name="short HMM",
    language=ReadyLanguage(short_hmm()),
    flattened=by_label_noise(Schedule(0.2, 64), 3000),
    sharpened=replace(DECIDED.sharpened, loss_window=(1.6512, 1.6702)),
    sharpened_steps=450,
)
"""With more steps along SGD and of sharpening than the grammar's; docs/pilots.md has why."""
TASKS = ("state-3", "state-2")
"""Of 300 labelled sentences a probe on the words alone is right on 0.78; guessing, on 0.22."""


def flatten_polish_hmm(scale: Scale) -> Experiment:
    """The flagship's experiment on sentences of a hidden Markov model."""
    small = scale.name == "smoke"
    return polished_models(
        in_seconds(SHORT, laptop_transformers((16,))[0]) if small else SHORT,
        scale,
        TASKS,
        name="flatten-polish-hmm",
        title="At equal KL, is the flatter model of an HMM better?",
        text=(
            "The same as flatten-polish, on sentences of a hidden Markov model: they have no tree, a "
            "word depends on its neighbours, and labels are the likeliest hidden states, of which even the "
            "exact distribution leaves some doubt. What flatness does on one language it need not do on "
            "another.",
        ),
    )


EXPERIMENT = Design(
    flatten_polish_hmm,
    registered="fc383bc2a80f13d4255f73112767b22f24e48440",
    seeds=seeds_at(laptop="721-725", night="821-850"),
    picture=Picture(
        "equal-knowledge", "Accuracy and damage against the trace, of models of equal KL of an HMM"
    ),
    headline="flatter-is-no-better",
)
