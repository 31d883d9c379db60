"""Figure 9: the KL divergence, on a logarithmic axis, instead of the loss."""

from dataclasses import replace

import polars as pl

from isoloss.experiments.claims import (
    FALL_OF_ONE_KL,
    KL_IN_PAPER,
    UNDECIDABLE,
    WHY_KL_WINDOW,
    WHY_WINDOW,
    Claim,
    Question,
)
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import (
    ACCURACY,
    BY_SEED,
    BY_WIDTH,
    LOG_KL,
    SIZE,
    STEP,
    ShownTask,
    first_text_task,
    loss_bars,
    probe_bars,
    task_10,
    task_b,
)
from isoloss.experiments.planned_run import MeasuredAt, PlannedRun
from isoloss.experiments.scale import FRESH_SEEDS, Scale
from isoloss.experiments.statistics.along_runs import LastDoubling, MeanWithinRuns
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW
from isoloss.experiments.statistics.sizes import last_doubling_of_width, relative_fall_with_width
from isoloss.panels import Lines, Panel
from isoloss.results.verdict import below

COULD_HARDLY_FAIL = (
    f"{UNDECIDABLE}: KL is so small beside the loss that it could hardly fail; it was supported while KL "
    "still fell by a third over the last doubling"
)


def figure_9(scale: Scale) -> Experiment:
    """The figure's runs, claims and panels at a scale."""
    tasks = (task_b(scale), task_10(scale), first_text_task(scale))
    return Experiment(
        name="figure-9",
        title="Does the KL divergence converge, as the loss does?",
        question=Question.LOSS,
        text=(
            "The loss is the entropy of the distribution, which no model can change, plus KL(distribution || "
            "model). The paper plots the logarithm of the KL: it resolves what the loss hides, and still "
            "levels off.",
            "It has converged where a further doubling of steps, or of width, lowers it by no more than a "
            "share of itself. All checkpoints of a run are judged, not only those that count as saturated.",
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
        f"{task.title}: over steps",
        f"One line per run, {len(task.seeds(scale))} seeds per width. {of_loss}",
        (Lines(STEP, LOG_KL, BY_WIDTH, "run", marked=task.runs.saturated_from),),
        every,
    )
    sizes = Panel(
        f"{task.key}-sizes",
        f"{task.title}: over sizes",
        f"{task.chance_and_ceiling(table)}One dot per run at step {task.runs.steps:,}, one line per seed. "
        f"{of_loss}{probe_bars(scale.sizes)}",
        tuple(Lines(SIZE, y, BY_SEED, "seed") for y in (LOG_KL, ACCURACY)),
        task.last_rows(table),
    )
    return steps, sizes


def divergence_comes_to_rest(task: ShownTask) -> tuple[Claim, ...]:
    """The claims of one panel."""
    return tuple(
        Claim(
            name=f"{task.key}-comes-to-rest-over-{what}",
            sentence=f"{task.title}: the KL divergence has converged {how}.",
            paper=KL_IN_PAPER,
            measure=f"share of itself by which KL falls over the last doubling of {what}{whose}",
            unit="",
            claimed=below(FALL_OF_ONE_KL),
            statistic=task.statistic(statistic),
            reason=WHY_KL_WINDOW,
        )
        for what, how, whose, statistic in (
            ("steps", "as training proceeds", ", mean over runs", MeanWithinRuns(LastDoubling("kl"))),
            (
                "width",
                "as models grow",
                ", between the two widest at the last checkpoint, per doubling",
                relative_fall_with_width,
            ),
        )
    )


def saturates_beside_the_loss(task: ShownTask) -> tuple[Claim, ...]:
    """The same over the loss, which could hardly fail: KL is so small beside it."""
    return tuple(
        Claim(
            name=f"{task.key}-saturates-over-{what}",
            sentence=f"{task.title}: the KL divergence has converged {how}.",
            paper=KL_IN_PAPER,
            measure=f"fall of KL over the last doubling of {what}, over the loss{whose}",
            unit="",
            claimed=below(LOSS_WINDOW),
            statistic=task.statistic(statistic),
            reason=WHY_WINDOW,
            withdrawn=COULD_HARDLY_FAIL,
        )
        for what, how, whose, statistic in (
            ("steps", "as training proceeds", ", mean over runs", MeanWithinRuns(LastDoubling("kl", "loss"))),
            (
                "width",
                "as models grow",
                ", between the two widest at the last checkpoint, per doubling",
                last_doubling_of_width,
            ),
        )
    )


EXPERIMENT = Design(
    figure_9,
    registered="b860d6db0c56933dcc4595d62ae8cdc24ab2fe30",
    seeds=FRESH_SEEDS,
    earlier_seeds={
        "laptop": (
            tuple(range(111, 116)),
            (*range(111, 116), *range(161, 166)),
            (*range(161, 166), *range(171, 176)),
        ),
        "night": (
            tuple(range(201, 211)),
            (*range(201, 211), *range(241, 251)),
            (*range(201, 211), *range(241, 251), *range(271, 289)),
        ),
    },
    picture=Picture("pcfg-b-steps", "KL(distribution || model) over pre-training steps"),
    of_the_paper=True,
)
