"""Figure 2: after the pre-training loss has converged, models at a later step do better."""

import polars as pl

from isoloss.experiments.axes import ACCURACY, BY_WIDTH, LOSS, STEP
from isoloss.experiments.captions import OWN_TASK, loss_bars, probe_bars
from isoloss.experiments.experiment import Experiment, Question
from isoloss.experiments.later_is_better import later_is_better, one_loss_over_steps
from isoloss.experiments.run_facts import measurement_facts, run_facts
from isoloss.experiments.scale import Scale
from isoloss.experiments.shown_task import ShownTask, first_text_task, task_c
from isoloss.panels import Lines, Panel

PAPER = "“the pre-training loss does not improve” (Section 2.3; no number given)"


def figure_2(scale: Scale) -> Experiment:
    """The figure's runs, claims and panels at a scale."""
    tasks = (task_c(scale), first_text_task(scale))
    return Experiment(
        name="figure-2",
        title="Does accuracy go on rising after the loss has converged?",
        question=Question.LATER,
        text=(
            "The paper follows one model a panel over its pre-training: (a) 41M parameters on the grammar, "
            "task C, (b) 235M on sentences that OPT writes, QNLI. The loss reaches its least value, the "
            "law's entropy, and accuracy goes on rising.",
            "Here all sizes and seeds are followed. The causal model's language has a task of its own in "
            "the place of QNLI: with which word a sentence began, told from the words after it. "
            f"{OWN_TASK}",
            "The paper's panel (c), OpenWebText and SST-2, is the experiment real-text-steps.",
        ),
        runs=tuple(run for task in tasks for run in task.probed_runs(scale, task.runs.checkpoint_steps)),
        references=tuple(task.reference(scale.sizes) for task in tasks),
        claims=(*(one_loss_over_steps(task, PAPER) for task in tasks), *map(later_is_better, tasks)),
        panels=lambda table: tuple(
            _panel(task, table, scale) for task in tasks if not task.rows(table).is_empty()
        ),
        pilot_seeds=scale.pilot_seeds,
        settings=(*run_facts(tasks), *measurement_facts(scale.sizes)),
        paper_numbers=(("least loss, PCFG", "3.196 nats"), ("least loss, OPT", "1.865 nats")),
    )


def _panel(task: ShownTask, table: pl.DataFrame, scale: Scale) -> Panel:
    caption = (
        f"{task.chance_and_ceiling(table)}A line a run, {len(scale.seeds)} seeds a width. Claims are judged "
        f"on the checkpoints from the dashed line (step {task.runs.saturated_from:,}) on. "
        f"{probe_bars(scale.sizes)}{loss_bars(scale.sizes)}"
    )
    charts = tuple(Lines(STEP, y, BY_WIDTH, "run", marked=task.runs.saturated_from) for y in (LOSS, ACCURACY))
    return Panel(task.key, task.title, caption, charts, task.rows(table))
