"""Figure 10: trace and accuracy along SGD on the other downstream tasks."""

from isoloss.experiments.descent_panel import descent_panels
from isoloss.experiments.experiment import Experiment, Question
from isoloss.experiments.figure_4 import flatter_is_better
from isoloss.experiments.run_facts import descent_facts, measurement_facts, run_facts
from isoloss.experiments.scales.scale import Scale
from isoloss.experiments.shown_task import task_6, task_a, task_b


def figure_10(scale: Scale) -> Experiment:
    """The figure's runs, claims and panels at a scale."""
    shown = (
        (task_a(scale), scale.descents.grammar),
        (task_b(scale), scale.descents.grammar),
        (task_6(scale), scale.descents.hidden_markov),
    )
    return Experiment(
        name="figure-10",
        title="Are flatter checkpoints of SGD better on other tasks too?",
        question=Question.FLATNESS,
        text=(
            "The runs of Figure 4 on the paper's other tasks: A and B on the grammar, task-6 on the hidden "
            "Markov model. That the trace falls is judged with Figure 4; here, that flatter checkpoints "
            "of a run do better.",
        ),
        runs=tuple(run for task, descent in shown for run in task.descents(descent, scale)),
        references=tuple(task.reference(scale.sizes) for task, _ in shown),
        claims=tuple(flatter_is_better(task) for task, _ in shown),
        panels=lambda table: descent_panels(shown, table, scale),
        pilot_seeds=scale.pilot_seeds,
        settings=(
            *run_facts([task for task, _ in shown]),
            *descent_facts(shown),
            *measurement_facts(scale.sizes),
        ),
    )
