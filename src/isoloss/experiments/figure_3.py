"""Figure 3: at the same pre-training loss, larger models do better."""

from isoloss.experiments.captions import OWN_TASK
from isoloss.experiments.experiment import Experiment, Question
from isoloss.experiments.larger_is_better import (
    larger_is_better,
    projection_changes_little,
    sizes_have_one_loss,
    smallest_is_near_the_law,
)
from isoloss.experiments.run_facts import measurement_facts, run_facts
from isoloss.experiments.scale import Scale
from isoloss.experiments.shown_task import first_text_task, task_10, task_b
from isoloss.experiments.size_panel import size_panels

GAINS = ("6.9", "4.5", "2.0")
"""What scaling up adds to accuracy in the paper, in percent points: PCFG, HMM, OPT (Section 2.3)."""


def figure_3(scale: Scale) -> Experiment:
    """The figure's runs, claims and panels at a scale."""
    tasks = (task_b(scale), task_10(scale), first_text_task(scale))
    better = tuple(
        larger_is_better(task, f"+{gain} percent points (Section 2.3)")
        for task, gain in zip(tasks, GAINS, strict=True)
    )
    even = tuple(map(projection_changes_little, tasks))
    return Experiment(
        name="figure-3",
        title="Are larger models better at the same loss?",
        question=Question.LARGER,
        text=(
            "The paper trains models of several sizes until their loss is that of the law, or nearly: "
            "transformers on the grammar (task B) and on sentences that OPT writes (QNLI), LSTMs on the "
            "hidden Markov model (task-10). Of models with one loss the larger do better.",
            "The pictures show sizes at the last checkpoint. Claims compare a seed's sizes where each has "
            "the lowest loss that all reach. The causal model's language has a "
            f"task of its own in the place of QNLI. {OWN_TASK}",
        ),
        runs=tuple(run for task in tasks for run in task.projected_runs(scale)),
        references=tuple(task.reference(scale.sizes) for task in tasks),
        claims=(*map(sizes_have_one_loss, tasks), smallest_is_near_the_law(tasks[1]), *even, *better),
        panels=lambda table: size_panels(tasks, table, scale),
        pilot_seeds=scale.pilot_seeds,
        settings=(*run_facts(tasks), *measurement_facts(scale.sizes)),
        paper_numbers=tuple(
            (f"gain, {name}", f"{gain} percent points")
            for name, gain in zip(("PCFG", "HMM", "OPT"), GAINS, strict=True)
        ),
    )
