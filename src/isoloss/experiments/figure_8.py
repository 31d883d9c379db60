"""Figure 8: larger models do better on the other downstream tasks too."""

from isoloss.experiments.axes import OWN_TASK
from isoloss.experiments.experiment import Experiment, Question
from isoloss.experiments.figure_3 import larger_is_better, size_panels
from isoloss.experiments.run_facts import measurement_facts, run_facts
from isoloss.experiments.scales.scale import Scale
from isoloss.experiments.shown_task import second_text_task, task_6, task_a

PAPER = "“the increase in downstream performance as we scale up” (A.6; no number given)"


def figure_8(scale: Scale) -> Experiment:
    """The figure's runs, claims and panels at a scale."""
    tasks = (task_a(scale), task_6(scale), second_text_task(scale))
    return Experiment(
        name="figure-8",
        title="Are larger models better on other tasks too?",
        question=Question.LARGER,
        text=(
            "The models of Figure 3 on the paper's other tasks: A on the grammar, task-6 on the hidden "
            "Markov model, and in the place of SST-2 another task of the causal model's own language. "
            f"Whether the sizes have one loss is judged with Figure 3. {OWN_TASK}",
        ),
        runs=tuple(run for task in tasks for run in task.projected_runs(scale)),
        references=tuple(task.reference(scale.sizes) for task in tasks),
        claims=tuple(larger_is_better(task, PAPER) for task in tasks),
        panels=lambda table: size_panels(tasks, table, scale),
        pilot_seeds=scale.pilot_seeds,
        settings=(*run_facts(tasks), *measurement_facts(scale.sizes)),
    )
