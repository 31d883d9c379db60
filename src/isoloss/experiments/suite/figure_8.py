"""Figure 8: at the same pre-training loss, larger models do better on the paper's other tasks too."""

from dataclasses import replace

from isoloss.experiments.claims import Question
from isoloss.experiments.design import Picture
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import (
    NO_ROOM,
    OWN_TASK,
    grammar_task,
    hidden_state_task,
    of_the_stand_in,
    text_task,
)
from isoloss.experiments.scale import Scale
from isoloss.experiments.suite.figure_3 import EXPERIMENT as FIGURE_3
from isoloss.experiments.suite.figure_3 import PAPER, larger_is_better, size_panels


def figure_8(scale: Scale) -> Experiment:
    """The figure's runs, claims and panels at a scale."""
    tasks = (grammar_task(scale, "A"), hidden_state_task(scale, "6"), text_task(scale, "SST-2"))
    return Experiment(
        name="figure-8",
        title="Are larger models better on other tasks too?",
        question=Question.LARGER,
        text=(
            "The models of Figure 3 on the paper's other tasks: A on the grammar, task-6 on the hidden "
            "Markov model, and, in place of SST-2, another task of the causal model's own language. Whether "
            f"all sizes have the same loss is judged with Figure 3. {OWN_TASK}",
            *of_the_stand_in(scale),
        ),
        runs=tuple(run for task in tasks for run in task.projected_runs(scale)),
        references=tuple(task.reference(scale.sizes) for task in tasks),
        claims=tuple(claim for task in tasks for claim in larger_is_better(task, PAPER)),
        panels=lambda table: size_panels(tasks, table, scale),
    )


EXPERIMENT = replace(
    FIGURE_3,
    plan=figure_8,
    caution=NO_ROOM.format(points=4),
    picture=Picture("pcfg-a", "Loss and accuracy over widths, on another task"),
)
