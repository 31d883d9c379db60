"""Tables 1 and 2, BookCorpus: pre-training with and without regularisation, and by SAM, at the same loss."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.compared_algorithms import pairs_panel
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import TRACE
from isoloss.experiments.planned_run import MeasuredAt
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.claims import WHY_WINDOW
from isoloss.experiments.shared.language_runs import rounds_at
from isoloss.experiments.shared.real_text import (
    ADAMW,
    BARE,
    SAM_RULE,
    ComparedTask,
    compared_runs,
    majority,
    majority_in_words,
)
from isoloss.experiments.shared.real_text_settings import SEEDS
from isoloss.experiments.statistics.same_loss import (
    LOSS_WINDOW,
    MeanAtSameLoss,
    doublings,
    mean_over_runs,
    percentage_points,
    rows_at_same_loss,
)
from isoloss.measurements.quantity import Quantity
from isoloss.panels import Axis, Panel, Table
from isoloss.results.verdict import above, below, within

LOWER = {
    "SST-2": "89.5 against 90.8 % (Table 1)",
    "QNLI": "83.0 against 84.4 % (Table 1)",
    "RTE": "60.2 against 62.9 % (Table 2)",
}
RECOVERED = {
    "SST-2": "90.1 against 89.5 % (Table 1)",
    "QNLI": "84.4 against 83.0 % (Table 1)",
    "RTE": "62.5 against 60.2 % (Table 2)",
}
PAPER_NUMBERS = (
    (ADAMW, "loss 1.85; QNLI 84.4 %, SST-2 90.8 %, RTE 62.9 %; trace 24.55 ± 0.18"),
    (BARE, "loss 1.85; QNLI 83.0 %, SST-2 89.5 %, RTE 60.2 %; trace 34.91 ± 0.40"),
    (SAM_RULE, "loss 1.89; QNLI 84.4 %, SST-2 90.1 %, RTE 62.5 %; trace 22.15 ± 0.26"),
)
PROBED = (
    "At this scale accuracy is that of a linear probe: fine-tuned as in the paper, a pilot run's model of "
    "this size predicted the same class for every text."
)
ABSENT = (
    "{absent} are measured once texts of their form are in the cache, which they are not: “isoloss task "
    "qnli-form” fetches those of both (358 MB), and the same command then measures them."
)


def real_text_algorithms(scale: Scale) -> Experiment:
    """The runs, claims and panels at a scale."""
    settings = scale.real_text
    runs, sizes, tasks = settings.compared, settings.sizes, settings.tasks
    quantities: list[Quantity] = [sizes.loss(), sizes.trace()]
    quantities += [sizes.accuracy_of(task.source, task.column) for task in tasks]
    measured = (
        *(MeasuredAt(quantity, runs.compared_steps) for quantity in quantities),
        MeasuredAt(sizes.training_loss(), (runs.steps,)),
    )
    absent = [name for name in ("QNLI", "RTE") if name not in {task.papers for task in tasks}]
    axes = tuple(Axis(task.column, f"{task.source.name}: accuracy", f"{task.column}_error") for task in tasks)
    return Experiment(
        name="real-text-algorithms",
        title="Do regularisation and SAM matter at the same loss, on real text?",
        question=Question.ALGORITHM,
        text=(
            "The BookCorpus rows of Tables 1 and 2: the paper trains a transformer of 330M parameters with "
            "dropout and weight decay, without them, and without them but with SAM, and fine-tunes each on "
            "tasks of GLUE. At almost the same validation loss, the model without regularisation is sharper "
            "and worse, and SAM makes up for both.",
            "Two pre-training algorithms are compared, seed by seed, where each first falls to the lowest "
            "validation loss that both reach, interpolated between checkpoints: at the same step their "
            "losses need not agree.",
            *((settings.chosen_late,) if settings.chosen_late else ()),
            *((PROBED,) if sizes.fine_tuning is None else ()),
            *((ABSENT.format(absent=" and ".join(absent)),) if absent else ()),
            "This is a separate experiment from Tables 1 and 2: its texts have to be downloaded, and its "
            "claims are corrected for multiple testing among themselves.",
        ),
        runs=compared_runs(runs, scale.seeds, measured),
        references=tuple(majority(runs, task.source, sizes, (("rule", "majority"),)) for task in tasks),
        claims=claims_of(tasks),
        panels=lambda table: _panels(table, axes),
        paper_numbers=PAPER_NUMBERS,
    )


def _panels(table: pl.DataFrame, accuracies: tuple[Axis, ...]) -> tuple[Panel, ...]:
    columns = (*accuracies, TRACE)
    names = [axis.column for axis in columns]
    compared = ((ADAMW, (BARE, SAM_RULE)), (BARE, (SAM_RULE,)))
    pairs = pl.concat(
        rows_at_same_loss(table, rules, reference, names).with_columns(
            pair=pl.col("against") + f" against {reference}"
        )
        for reference, rules in compared
    )
    rule, loss = Axis("rule", "pre-training"), Axis("loss", "validation loss (nats)", "loss_error")
    training = Axis("training_loss", "training loss (nats)", "training_loss_error")
    last = last_rows(table)
    return (
        Panel(
            "last",
            "After the last step",
            "Mean over pre-training seeds ± one standard error over them, at the end of each run; the "
            f"paper's tables show these numbers for one run each. {majority_in_words(table)}",
            (Table((rule, loss, training, *columns, Axis("runs", "seeds"))),),
            mean_over_runs(last, ["loss", "training_loss", *names]),
        ),
        pairs_panel(pairs, (rule, Axis("pair", "pair")), loss, columns, over="texts, documents or sequences"),
    )


def last_rows(table: pl.DataFrame) -> pl.DataFrame:
    """Those of the last checkpoint of every run that was completed."""
    runs = table.filter("complete", pl.col("step").is_not_null())
    return runs.filter(pl.col("step") == pl.col("step").max().over("run"))


def difference_of_losses(runs: Sequence[pl.DataFrame]) -> float:
    """Mean final loss without regularisation, minus that with it, over that with it."""
    bare, adamw = (
        np.mean([run["loss"][-1] for run in runs if run["rule"][0] == rule] or [np.nan])
        for rule in (BARE, ADAMW)
    )
    return float(bare / adamw - 1)


def widening_of_the_gap(runs: Sequence[pl.DataFrame]) -> float:
    """Mean validation minus training loss at the end, nats: without regularisation, minus that with it."""
    bare, adamw = (
        [run["loss"][-1] - run["training_loss"][-1] for run in runs if run["rule"][0] == rule]
        for rule in (BARE, ADAMW)
    )
    return float(np.mean(bare) - np.mean(adamw)) if bare and adamw else float("nan")


def claims_of(tasks: Sequence[ComparedTask]) -> tuple[Claim, ...]:
    """The claims about losses and trace, and two for each task."""
    return (
        Claim(
            name="same-loss-without-regularisation",
            answers=Question.LOSS,
            sentence="Without dropout and weight decay the validation loss is almost the same.",
            paper="1.85 and 1.85 nats (Tables 1 and 2)",
            measure="mean loss at the last checkpoints without regularisation minus AdamW's, over AdamW's",
            unit="",
            claimed=within(LOSS_WINDOW),
            statistic=difference_of_losses,
            kind="premise",
            reason=WHY_WINDOW,
        ),
        Claim(
            name="wider-gap-without-regularisation",
            sentence="Without dropout and weight decay, training loss is farther below validation loss.",
            paper="“the generalization gap of pre-training loss increase to 0.13” nats (Section 4)",
            measure="mean validation minus training loss at the last checkpoints, without minus with",
            unit="nats",
            claimed=above(0.065),
            statistic=widening_of_the_gap,
            reason="half of the paper's gap",
        ),
        Claim(
            name="sharper-without-regularisation",
            sentence="At the same loss, a model without dropout and weight decay is at a sharper minimum.",
            paper="34.91 against 24.55, 0.51 doublings (Table 2)",
            measure="mean over seeds of log2(trace without / with regularisation) at the pair's common loss",
            unit="doublings of the trace",
            claimed=above(0.0),
            statistic=MeanAtSameLoss(BARE, ADAMW, "trace", doublings),
        ),
        Claim(
            name="flatter-by-sam",
            sentence="At the same loss, SAM makes a model without dropout and weight decay flatter.",
            paper="22.15 against 34.91, -0.66 doublings (Table 2)",
            measure="mean over seeds of log2(SAM's trace / that without SAM) at the pair's common loss",
            unit="doublings of the trace",
            claimed=below(0.0),
            statistic=MeanAtSameLoss(SAM_RULE, BARE, "trace", doublings),
        ),
        *(claim for task in tasks for claim in _of_task(task)),
    )


def _of_task(task: ComparedTask) -> tuple[Claim, Claim]:
    slug, name = task.papers.lower(), task.source.name
    return (
        Claim(
            name=f"worse-without-regularisation-{slug}",
            sentence=f"{name}: at the same loss, a model without dropout and weight decay does worse.",
            paper=LOWER[task.papers],
            measure="mean over seeds of accuracy at the pair's common loss, without minus with",
            unit="percentage points",
            claimed=below(0.0),
            statistic=MeanAtSameLoss(BARE, ADAMW, task.column, percentage_points),
        ),
        Claim(
            name=f"better-by-sam-{slug}",
            sentence=f"{name}: at the same loss, SAM restores the accuracy lost without regularisation.",
            paper=RECOVERED[task.papers],
            measure="mean over seeds of accuracy at the pair's common loss, SAM minus without SAM",
            unit="percentage points",
            claimed=above(0.0),
            statistic=MeanAtSameLoss(SAM_RULE, BARE, task.column, percentage_points),
        ),
    )


EXPERIMENT = Design(
    real_text_algorithms,
    registered="b498bd11b1dfc342db1e68a9863f45335559777e",
    seeds=SEEDS,
    earlier_seeds=rounds_at(laptop="111-115"),
    of_the_paper=True,
    headline="worse-without-regularisation-sst-2",
)
