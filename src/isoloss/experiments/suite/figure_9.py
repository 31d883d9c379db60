"""Figure 9: the KL divergence, on a logarithmic axis, instead of the loss."""

from dataclasses import replace

import polars as pl

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Picture
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import (
    ACCURACY,
    BY_SEED,
    BY_WIDTH,
    LOG_KL,
    SIZE,
    STEP,
    ShownTask,
    grammar_task,
    hidden_state_task,
    judged_from,
    loss_bars,
    probe_bars,
    text_task,
)
from isoloss.experiments.planned_run import MeasuredAt, PlannedRun
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.claims import (
    FALL_OF_ONE_KL,
    KL_IN_PAPER,
    UNDECIDABLE,
    WHY_KL_WINDOW,
    WHY_WINDOW,
)
from isoloss.experiments.statistics.across_models import last_doubling_of_width, relative_fall_with_width
from isoloss.experiments.statistics.along_runs import LastDoubling, MeanWithinRuns
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW
from isoloss.experiments.statistics.seed_bootstrap import Statistic
from isoloss.experiments.suite.figure_3 import EXPERIMENT as FIGURE_3
from isoloss.panels import Lines, Panel
from isoloss.results.verdict import below

COULD_HARDLY_FAIL = (
    f"{UNDECIDABLE}: it could hardly fail, since KL is so small beside the loss, and was supported while "
    "KL still fell by a third over the last doubling"
)


def figure_9(scale: Scale) -> Experiment:
    """The figure's runs, claims and panels at a scale."""
    tasks = (grammar_task(scale, "B"), hidden_state_task(scale, "10"), text_task(scale, "QNLI"))
    return Experiment(
        name="figure-9",
        title="Does the KL divergence converge, as the loss does?",
        question=Question.LOSS,
        text=(
            "The loss is the entropy of the distribution, which no model can change, plus KL(distribution || "
            "model). The paper plots the logarithm of the KL: it resolves what the loss hides, and still "
            "levels off.",
            "It counts as converged if a further doubling of steps, or of width, lowers it by less than "
            f"{100 * FALL_OF_ONE_KL:.0f} %. All checkpoints of a run are judged, not only the saturated "
            "ones.",
        ),
        runs=tuple(run for task in tasks for run in _runs(task, scale)),
        references=tuple(task.reference(scale.sizes) for task in tasks),
        claims=tuple(
            claim
            for of_task in (divergence_comes_to_rest, saturates_beside_the_loss)
            for task in tasks
            for claim in of_task(task)
        ),
        panels=lambda table: tuple(
            panel
            for task in tasks
            if not task.rows(table).is_empty()
            for panel in _panels(task, table, scale)
        ),
    )


def _runs(task: ShownTask, scale: Scale) -> tuple[PlannedRun, ...]:
    """Loss at every checkpoint, all of which are judged, and accuracy at the last."""
    loss = MeasuredAt(scale.sizes.loss(task.runs.evaluated), task.runs.checkpoint_steps)
    return tuple(
        replace(run, measured=(loss, *run.measured), saturated_from=0)
        for run in task.probed_runs(scale, (task.runs.steps,))
    )


def _panels(task: ShownTask, table: pl.DataFrame, scale: Scale) -> tuple[Panel, Panel]:
    of_loss, every = loss_bars(scale.sizes), task.rows(table)
    steps = Panel(
        f"{task.key}-steps",
        f"{task.title}: KL over steps",
        f"One line per run, {len(scale.seeds)} seeds per width. {of_loss}",
        (Lines(STEP, LOG_KL, BY_WIDTH, "run", marked=judged_from(task.runs.saturated_from, every)),),
        every,
        shows=(f"{task.key}-comes-to-rest-over-steps",),
    )
    sizes = Panel(
        f"{task.key}-sizes",
        f"{task.title}: KL and accuracy over sizes",
        f"{task.chance_and_ceiling(table)}One dot per run at step {task.runs.steps:,}, one line per seed. "
        f"{of_loss}{probe_bars(scale.sizes)}",
        tuple(Lines(SIZE, y, BY_SEED, "seed") for y in (LOG_KL, ACCURACY)),
        task.last_rows(table),
        shows=(f"{task.key}-comes-to-rest-over-width",),
    )
    return steps, sizes


def _converges(
    task: ShownTask,
    name: str,
    measure: str,
    bound: float,
    reason: str,
    statistics: tuple[Statistic, Statistic],
    withdrawn: str = "",
    unit: str = "of KL",
) -> tuple[Claim, Claim]:
    """That KL has converged over steps, and over widths; `measure` says of what share it falls."""

    def over(what: str, how: str, whose: str, statistic: Statistic) -> Claim:
        return Claim(
            name=f"{task.key}-{name}-over-{what}",
            sentence=f"{task.title}: the KL divergence has converged {how}.",
            paper=KL_IN_PAPER,
            measure=measure.format(what=what, whose=whose),
            unit=unit,
            claimed=below(bound),
            statistic=task.statistic(statistic),
            reason=reason,
            withdrawn=withdrawn,
        )

    widest = ", between the two widest at the last checkpoint, per doubling"
    return (
        over("steps", "as training proceeds", ", mean over runs", statistics[0]),
        over("width", "as models grow", widest, statistics[1]),
    )


def divergence_comes_to_rest(task: ShownTask) -> tuple[Claim, Claim]:
    """The claims of one panel."""
    measure = "share of KL by which it falls over the last doubling of {what}{whose}"
    statistics = (MeanWithinRuns(LastDoubling("kl")), relative_fall_with_width)
    return _converges(task, "comes-to-rest", measure, FALL_OF_ONE_KL, WHY_KL_WINDOW, statistics)


def saturates_beside_the_loss(task: ShownTask) -> tuple[Claim, Claim]:
    """The same over the loss, which could hardly fail: KL is so small beside it."""
    measure = "fall of KL over the last doubling of {what}, over the loss{whose}"
    statistics = (MeanWithinRuns(LastDoubling("kl", "loss")), last_doubling_of_width)
    return _converges(
        task, "saturates", measure, LOSS_WINDOW, WHY_WINDOW, statistics, COULD_HARDLY_FAIL, unit="of the loss"
    )


EXPERIMENT = replace(
    FIGURE_3,
    plan=figure_9,
    caution="",
    picture=Picture("pcfg-b-steps", "KL(distribution || model) over pre-training steps"),
)
