"""Figure 1 on a grammar whose labels are decided: a model that knows the distribution can have them all."""

from dataclasses import replace

from isoloss.experiments.design import Design, Picture
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.languages import ReadyLanguage, decided_grammar
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.claims import FIGURE_1, OF_TYPICAL_RUNS, OPEN_WITH_FEW_SEEDS
from isoloss.experiments.shared.language_runs import seeds_at
from isoloss.experiments.suite.figure_1 import after_saturation

TASK = "prefix-8"


def figure_1_decided(scale: Scale) -> Experiment:
    """The runs, claims and panels of Figure 1 as at laptop scale, on this grammar."""
    # Claims on typical runs are younger than the registration of these.
    left_out = (*OF_TYPICAL_RUNS, *(OPEN_WITH_FEW_SEEDS if scale.name == "laptop" else ()))
    grammar = replace(
        scale.grammar, language=ReadyLanguage(decided_grammar()), tasks=(TASK,) * len(scale.grammar.tasks)
    )
    return replace(
        after_saturation(replace(scale, grammar=grammar)),
        name="figure-1-decided",
        claims=tuple(claim for claim in FIGURE_1 if claim.name not in left_out),
        gallery=None,
        title="Where every label is certain, are later checkpoints flatter and better?",
        text=(
            "On the headline's grammar the exact posterior of a sentence's label is often spread over "
            "several symbols, so that what a probe can reach is far below 1. Here every sentence has one "
            "tree, and so one label: a model that knows the distribution can have them all. Everything else "
            "is Figure 1's.",
        ),
        paper_numbers=(),
    )


EXPERIMENT = Design(
    figure_1_decided,
    registered="a2c324525d400173d592cf5543066c890f6cce12",
    seeds=seeds_at(laptop="571-577", night="581-600"),
    picture=Picture("steps", "Loss, trace and accuracy over pre-training steps, where labels are decided"),
    headline="later-is-better",
)
"""The premise of one loss may fail, and is judged; docs/pilots.md has why."""
