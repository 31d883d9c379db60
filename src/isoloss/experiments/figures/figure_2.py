"""Figure 2: after the pre-training loss has converged, models at a later step do better."""

import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.experiment import Experiment, Question
from isoloss.experiments.figures.axes import ACCURACY, BY_WIDTH, LOSS, OWN_TASK, STEP, loss_bars, probe_bars
from isoloss.experiments.figures.figure_1 import WHY_WINDOW
from isoloss.experiments.figures.shown_task import (
    ShownTask,
    first_text_task,
    measurement_facts,
    run_facts,
    task_c,
)
from isoloss.experiments.scales.scale import Scale
from isoloss.experiments.statistics.along_runs import IMPROVEMENT, RANGE_OF_LOSS
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW
from isoloss.panels import Lines, Panel
from isoloss.verdict import above, below

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
            "distribution's entropy, and accuracy goes on rising.",
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
        f"{task.chance_and_ceiling(table)}A line a run, {len(task.seeds(scale))} seeds a width. Claims are "
        f"judged on the checkpoints from the dashed line (step {task.runs.saturated_from:,}) on. "
        f"{probe_bars(scale.sizes)}{loss_bars(scale.sizes)}"
    )
    charts = tuple(Lines(STEP, y, BY_WIDTH, "run", marked=task.runs.saturated_from) for y in (LOSS, ACCURACY))
    return Panel(task.key, task.title, caption, charts, task.rows(table))


def one_loss_over_steps(task: ShownTask, paper: str) -> Claim:
    """That a run's saturated checkpoints have the same loss, in the window of Figure 1."""
    return Claim(
        name=f"{task.key}-one-loss",
        sentence=f"{task.title}: from the first saturated checkpoint to the last the loss stays as it is.",
        paper=paper,
        measure="mean over runs of largest minus smallest loss of its saturated checkpoints, over their mean",
        unit="",
        claimed=below(LOSS_WINDOW),
        statistic=task.statistic(RANGE_OF_LOSS),
        kind="premise",
        reason=WHY_WINDOW,
    )


def later_is_better(task: ShownTask) -> Claim:
    """That accuracy rises along a run's saturated checkpoints."""
    return Claim(
        name=f"{task.key}-later-is-better",
        sentence=f"{task.title}: after the loss has converged, accuracy goes on rising.",
        paper="“the downstream accuracy continues increasing” (Section 2.3; no number given)",
        measure="mean over runs of the Theil-Sen slope of probe accuracy per doubling of steps",
        unit="percent points per doubling",
        claimed=above(0.0),
        statistic=task.statistic(IMPROVEMENT),
    )
