"""Figures 3 and 8: at the same pre-training loss, larger models do better, on every task."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.experiment import Experiment, Question
from isoloss.experiments.figures.axes import ACCURACY, BY_SEED, LOSS, OWN_TASK, SIZE, loss_bars, probe_bars
from isoloss.experiments.figures.figure_1 import WHY_WINDOW
from isoloss.experiments.figures.shown_task import (
    PROJECTED,
    UNTRAINED,
    ShownTask,
    first_text_task,
    measurement_facts,
    run_facts,
    second_text_task,
    task_6,
    task_10,
    task_a,
    task_b,
)
from isoloss.experiments.scales.scale import Scale
from isoloss.experiments.statistics.along_runs import MeanWithinRuns, divergence_over_entropy, in_points
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW, percent_points
from isoloss.experiments.statistics.sizes import (
    GapBetweenWidths,
    OfNarrowest,
    SlopeOverSizes,
    saturated_width,
)
from isoloss.panels import Axis, Lines, Panel
from isoloss.verdict import above, below, within

PAPER = "“the increase in downstream performance as we scale up” (A.6; no number given)"
GAINS = ("6.9", "4.5", "2.0")
"""The gain in accuracy from scaling up in the paper, in percent points: PCFG, HMM, OPT (Section 2.3)."""

OF_ONE_DIMENSION = (
    Axis(PROJECTED, "accuracy, features of one dimension", f"{PROJECTED}_deviation"),
    Axis(UNTRAINED, "the same before any training", f"{UNTRAINED}_deviation"),
)

AT_ONE_LOSS = "all sizes of a seed at the lowest loss that all reach"
PROBED_BY_SIZE = (
    "mean over seeds of the slope of probe accuracy per doubling of parameters, of features projected to one "
    f"dimension, minus that of the same models before any training; {AT_ONE_LOSS}"
)
GAIN_BY_SIZE = SlopeOverSizes(in_points(PROJECTED), less=UNTRAINED)


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
            "The paper trains models of several sizes until their loss is that of the distribution, or "
            "nearly: transformers on the grammar (task B) and on sentences that OPT writes (QNLI), LSTMs on "
            "the hidden Markov model (task-10). Of models with one loss the larger do better.",
            "The pictures show sizes at the last checkpoint. Claims compare a seed's sizes where each has "
            "the lowest loss that all reach. The causal model's language has a "
            f"task of its own in the place of QNLI. {OWN_TASK}",
        ),
        runs=tuple(run for task in tasks for run in task.projected_runs(scale)),
        references=tuple(task.reference(scale.sizes) for task in tasks),
        claims=(
            *map(sizes_have_one_loss, tasks),
            smallest_is_near_the_distribution(tasks[1]),
            *even,
            *better,
        ),
        panels=lambda table: size_panels(tasks, table, scale),
        pilot_seeds=scale.pilot_seeds,
        settings=(*run_facts(tasks), *measurement_facts(scale.sizes)),
        paper_numbers=tuple(
            (f"gain, {name}", f"{gain} percent points")
            for name, gain in zip(("PCFG", "HMM", "OPT"), GAINS, strict=True)
        ),
    )


def larger_is_better(task: ShownTask, paper: str) -> Claim:
    """That accuracy rises with size at the same loss; `paper` is what the paper says of this task."""
    return Claim(
        name=f"{task.key}-larger-is-better",
        sentence=f"{task.title}: at one loss larger models do better downstream.",
        paper=paper,
        measure=PROBED_BY_SIZE,
        unit="percent points per doubling",
        claimed=above(0.0),
        statistic=task.statistic(GAIN_BY_SIZE),
    )


def sizes_have_one_loss(task: ShownTask) -> Claim:
    """That all sizes have reached the same loss, in the window of Figure 1."""
    return Claim(
        name=f"{task.key}-one-loss",
        sentence=f"{task.title}: models of all sizes have the same pre-training loss.",
        paper="“even with almost the same pre-training loss” (Figure 3; no number given)",
        measure="largest minus smallest of the widths' mean losses at the last checkpoint, over their mean",
        unit="",
        claimed=below(LOSS_WINDOW),
        statistic=task.statistic(GapBetweenWidths("loss")),
        kind="premise",
        reason=WHY_WINDOW,
    )


def projection_changes_little(task: ShownTask) -> Claim:
    """That a probe of one dimension for all widths is as good as one of each width's own."""
    return Claim(
        name=f"{task.key}-projection-changes-little",
        sentence=f"{task.title}: accuracy is nearly the same with features projected to one dimension.",
        paper="projection to 512 dimensions “does not affect the final performance” (A.5; no number given)",
        measure="mean over runs of projected minus plain accuracy at the last checkpoint",
        unit="percent points",
        claimed=within(1.0),
        statistic=task.statistic(gain_by_projection),
        kind="premise",
        reason="a fraction of what the paper's sizes gain, 2.0 to 6.9 points",
    )


def gain_by_projection(runs: Sequence[pl.DataFrame]) -> float:
    """Mean over runs of final accuracy with projected minus all features, in percent points."""
    return float(np.mean([percent_points(run[PROJECTED][-1], run["accuracy"][-1]) for run in runs]))


def smallest_is_near_the_distribution(task: ShownTask) -> Claim:
    """That the smallest size has almost nothing left to learn."""
    return Claim(
        name=f"{task.key}-smallest-near-the-law",
        sentence=f"{task.title}: the smallest model is already close to the least loss.",
        paper="“the smallest model is already close to the minimal loss” (Figure 3; no number given)",
        measure="mean over the narrowest's runs of KL at the last checkpoint, over the law's entropy",
        unit="",
        claimed=below(LOSS_WINDOW),
        statistic=task.statistic(OfNarrowest(MeanWithinRuns(divergence_over_entropy))),
        kind="premise",
        reason="the window of one loss",
    )


def size_panels(tasks: tuple[ShownTask, ...], table: pl.DataFrame, scale: Scale) -> tuple[Panel, ...]:
    """Loss and accuracy over widths at the last checkpoint, a panel for each task that has been measured."""
    return tuple(_panel(task, table, scale) for task in tasks if not task.last_rows(table).is_empty())


def _panel(task: ShownTask, table: pl.DataFrame, scale: Scale) -> Panel:
    last = task.last_rows(table)
    caption = (
        f"{task.chance_and_ceiling(table)}A dot a run at step {task.runs.steps:,}, a line for each of "
        f"{len(task.seeds(scale))} seeds. The dashed line is at the width from which on the loss is "
        f"saturated, within {100 * LOSS_WINDOW:g} % of the least. Below, the accuracy with features of one "
        "dimension, of the models and of what they were before any training: claims subtract this from that. "
        f"{probe_bars(scale.sizes)}{loss_bars(scale.sizes)}"
    )
    saturated = saturated_width(last.partition_by("run", maintain_order=True))
    shown = (LOSS, ACCURACY, *(axis for axis in OF_ONE_DIMENSION if axis.column in last.columns))
    charts = tuple(Lines(SIZE, y, BY_SEED, "seed", marked=saturated) for y in shown)
    return Panel(task.key, task.title, caption, charts, last)


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
