"""Section 5 on trained transformers: among several ways to the same loss, does the flattest transfer best?"""

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.dyck_continuations import ADVERSARY, AT, COMPARED, DyckRuns
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import KL, TRACE, loss_bars, trace_bars
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.claims import WHY_PAPER_WINDOW, gap_at_the_end, premise_of_loss
from isoloss.experiments.shared.language_runs import rounds_at
from isoloss.experiments.statistics.across_models import DoublingsApart, PerDoubling
from isoloss.experiments.statistics.along_runs import (
    MeanOverSeeds,
    MeanWithinRuns,
    divergence_over_entropy,
    in_doublings,
)
from isoloss.panels import Axis, Colour, Dots, Panel
from isoloss.results.verdict import above, below

ERROR = f"count_error_{COMPARED}"
MADE = "Theorem 5.1: of all zero-loss solutions the flattest transfers (constructed, not trained)"
BY_CONTINUATION = Colour("way", "trained by")


def last_checkpoints(runs: Sequence[pl.DataFrame], *columns: str) -> pl.DataFrame:
    """A row per run with the columns, its last; none of runs on which the heads were not fitted."""
    last = [run.sort("step").tail(1) for run in runs if {"way", ERROR, *columns} <= {*run.columns}]
    return pl.concat(last, how="diagonal_relaxed") if last else pl.DataFrame()


def flattest_against_rest(runs: Sequence[pl.DataFrame]) -> float:
    """log2 of the others' geometric mean error over the flattest's, of one seed; nan for a single one."""
    rows = last_checkpoints(runs)
    if len(rows) < 2:
        return math.nan
    errors = np.log2(rows.sort("trace")[ERROR].to_numpy())
    return float(errors[1:].mean() - errors[0])


ERROR_PER_DOUBLING = PerDoubling(in_doublings(ERROR), last_checkpoints)


def error_without_adversary(runs: Sequence[pl.DataFrame]) -> float:
    """The same slope among the ways that are not trained against the task."""
    return ERROR_PER_DOUBLING([run for run in runs if "way" in run.columns and run["way"][0] != ADVERSARY])


CLAIMS = (
    premise_of_loss(
        "ways-have-one-loss",
        sentence="All continuations reach the same pre-training loss.",
        paper=MADE,
        measure=(
            "mean over seeds of largest minus smallest loss of the continuations' last checkpoints, over "
            "their mean"
        ),
        statistic=MeanOverSeeds(gap_at_the_end),
        reason=WHY_PAPER_WINDOW,
    ),
    Claim(
        name="ways-near-the-distribution",
        sentence="At the end of training, KL(distribution || model) is small beside the entropy.",
        paper="losses 3.204 to 3.208 over an entropy of 3.196 nats: 0.25 to 0.38 % (Figures 1 and 2)",
        measure="mean over runs of KL(distribution || model) at the last checkpoint, over the entropy",
        unit="",
        claimed=below(0.004),
        statistic=MeanWithinRuns(divergence_over_entropy),
        kind="premise",
        lowest=0.0,
        reason="the largest share in the paper",
    ),
    Claim(
        name="ways-differ-in-flatness",
        sentence="The continuations reach minima of clearly different flatness.",
        paper=MADE,
        measure="mean over seeds of log2 of the sharpest continuation's trace over the flattest's",
        unit="doublings of the trace",
        claimed=above(0.25),
        statistic=DoublingsApart("trace", last_checkpoints),
        kind="premise",
        lowest=0.0,
        reason="a sixth of the trace, many times its error: enough to tell which is flattest",
    ),
    Claim(
        name="flattest-transfers",
        sentence=(
            f"From {COMPARED} uniform strings the flattest model counts brackets better than the others."
        ),
        paper=MADE,
        measure=(
            "mean over seeds of log2 of the others' geometric mean error over the flattest's: the "
            f"squared error in g* of heads fitted on {COMPARED} strings, the median over samples"
        ),
        unit="doublings of the error",
        claimed=above(0.5),
        statistic=MeanOverSeeds(flattest_against_rest),
        reason="a factor of 1.4, several times the error from sampling strings",
    ),
    Claim(
        name="flatter-transfers-better",
        sentence="Of the continuations of one model, the flatter ones count brackets better.",
        paper=MADE,
        measure=(
            "least-squares slope of log2 of that error over log2 trace, among the continuations of one "
            "model; an intercept for every seed"
        ),
        unit="doublings of the error per doubling of the trace",
        claimed=above(0.5),
        statistic=ERROR_PER_DOUBLING,
        reason="half of the slope of an error in proportion to the trace",
    ),
    Claim(
        name="flatter-transfers-better-unopposed",
        sentence="Of the continuations not trained against this task, the flatter count brackets better.",
        paper=MADE,
        measure=(
            "least-squares slope of log2 of that error over log2 trace, among the continuations of one model "
            "without the adversary's; an intercept for every seed"
        ),
        unit="doublings of the error per doubling of the trace",
        claimed=above(0.5),
        statistic=error_without_adversary,
        reason="half of the slope of an error in proportion to the trace",
    ),
)


def dyck_transfer(scale: Scale, settings: DyckRuns) -> Experiment:
    """AdamW and the ways that branch off it, with seeds of their own."""
    sizes = scale.sizes
    quantities = (sizes.loss(), sizes.trace(), settings.counting(sizes.seed))
    language = settings.language
    return Experiment(
        name="dyck-transfer",
        title="Does the flattest transformer on Dyck strings transfer best?",
        question=Question.FLATNESS,
        text=(
            "Section 5 proves, for a two-layer model on Dyck strings (as many ⟨ as ⟩), that the flattest of "
            "all zero-loss solutions has the feature that transfers, g* = #⟩ - #⟨, from few labelled strings "
            "of any brackets. Those solutions are constructed, not trained. Here transformers are trained on "
            f"strings of {language.length} brackets, which are balanced with probability "
            f"{language.balanced_share:g} and uniform otherwise. No bracket is then certain, and the "
            "distribution of a masked one depends only on the g* of the others.",
            f"From AdamW's checkpoint at step {settings.parting:,}, training continues in several ways, each "
            "for the same number of steps. The downstream task is the paper's: the features of the first "
            "bracket are frozen, the minimum-norm linear head that fits n uniform strings is taken, and its "
            "squared error in g* is computed exactly, over all 2^T strings; the median over samples is "
            "shown. A model after one step, practically untrained, is shown next to them: its features are "
            "little more than averages of the brackets, which is what g* is.",
            "The question is whether the theorem's order, flattest first, also holds among solutions that "
            "training finds. One of the ways, the adversary, is trained against this very task, g* as "
            "classes; the last claim leaves it out. Nor is KL equal: see flatten-polish-dyck. Whether "
            "pre-training helps with a task that needs none is not tested.",
        ),
        runs=settings.runs(quantities),
        claims=CLAIMS,
        panels=lambda table: _panels(table, scale, settings),
        paper_numbers=(("trained solutions", "none"),),
    )


def count_error_axes(samples: Sequence[int]) -> tuple[Axis, ...]:
    """The error of heads fitted on so many strings, on an axis each."""
    return tuple(
        Axis(
            f"count_error_{n}",
            f"squared error in g* from {n} strings, over its variance",
            f"count_error_{n}_error",
            logarithmic=True,
        )
        for n in samples
    )


def _panels(table: pl.DataFrame, scale: Scale, settings: DyckRuns) -> tuple[Panel, ...]:
    if ERROR not in table.columns:
        return ()
    last = last_checkpoints(table.partition_by("run", maintain_order=True))
    bars = (
        f"{loss_bars(scale.sizes)}{trace_bars(scale.sizes)}Bars of the error: one standard error of the "
        f"median over {settings.draws} samples of strings. "
    )
    by_strings = count_error_axes(settings.samples)
    first = table.filter(pl.col("step") == 1)
    untrained = "".join(
        f" {100 * float(first[axis.column].to_numpy().mean()):.2g} % from {n} strings;"
        for n, axis in zip(settings.samples, by_strings, strict=True)
        if not first.is_empty()
    ).rstrip(";")
    beside = f" A model after one step:{untrained}." if untrained else ""
    return (
        Panel(
            "transfer",
            "Error in counting brackets over the trace",
            f"One dot per run, at its last checkpoint.{beside} {bars}",
            tuple(Dots(TRACE, axis, BY_CONTINUATION) for axis in by_strings),
            last,
            shows=("flattest-transfers", "flatter-transfers-better"),
        ),
        Panel(
            "loss",
            "Do they have the same loss?",
            f"One dot per run. {bars}",
            (Dots(KL, TRACE, BY_CONTINUATION),),
            last,
        ),
    )


EXPERIMENT = Design(
    lambda scale: dyck_transfer(scale, AT[scale.name]),
    registered="2fbc558bfe4961e9b03f48c5524cbda04a4d3b36",
    earlier_seeds=rounds_at(laptop="141-145", night="231-240; 261-270"),
    picture=Picture(
        "transfer", "Error in counting brackets over the trace of transformers trained on Dyck strings"
    ),
    headline="flatter-transfers-better-unopposed",
)
