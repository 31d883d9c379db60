"""Claims about the drift: one clock, and what stays and what falls in its time; fixed on pilot runs."""

import math
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.drift.clock import Pace
from isoloss.experiments.drift.curves import (
    AnyClock,
    by_model,
    curves,
    largest_distance,
    steps_apart,
    with_start,
)
from isoloss.experiments.drift.departures import CONTROL, DRIFT, PART
from isoloss.results.verdict import above, below, within

BATCHES_APART = 4
"""The ratio of two batch sizes at one learning rate whose speeds are compared."""

NO_CLOCK = "none: the theorem is about the limit η → 0, and the paper shows one rate and batch"


def distance_between_paces(runs: Sequence[pl.DataFrame], of: str = "trace", clock: AnyClock = Pace) -> float:
    """Largest distance between two paces at one time, over the mean fall at the last time.

    The largest value over models with at least two paces; nan if there are none, or if the trace of one has
    not fallen.
    """
    found = [own for own in by_model(curves(runs, DRIFT, of=of, clock=clock)) if len(own) > 1]
    return float(np.max([largest_distance(own) for own in found])) if found else math.nan


def lag_of_larger_batches(runs: Sequence[pl.DataFrame]) -> float:
    """Mean log2 of how many times fewer steps the smaller batch takes to the same trace, minus log2 of 4.

    Over all pairs of paces with the same learning rate and that ratio of batch sizes, and their checkpoints
    from the second on; those beyond the smaller batch's own checkpoints are left out.
    """
    ratios = [
        ratio
        for own in by_model(curves(runs, DRIFT))
        for small, large in permutations(own, 2)
        if small.pace.learning_rate == large.pace.learning_rate
        and large.pace.batch_size == BATCHES_APART * small.pace.batch_size
        for ratio in steps_apart(small, large)
    ]
    return float(np.mean(ratios)) - math.log2(BATCHES_APART) if ratios else math.nan


def change_of_loss(runs: Sequence[pl.DataFrame]) -> float:
    """Largest change of a pace's mean loss since the start, at any checkpoint, over the loss at the start."""
    table = with_start(runs, ("loss",))
    if table.is_empty():
        return math.nan
    by = ["language", "width", "pace", "step"]
    means = table.filter(pl.col(PART) == DRIFT).group_by(by).agg(pl.col("loss", "start_loss").mean())
    changes = (means["loss"] / means["start_loss"] - 1).abs().to_list()
    return float(max(changes, default=math.nan))


def halvings_of_trace(runs: Sequence[pl.DataFrame], of: str = "trace", clock: AnyClock = Pace) -> float:
    """Mean over paces of log2(trace at the start / at the last checkpoint); or of another quantity."""
    return _mean([float(curve.fallen[-1]) for curve in curves(runs, DRIFT, of=of, clock=clock)])


def share_that_falls_without_noise(runs: Sequence[pl.DataFrame]) -> float:
    """How far the control falls in the same number of steps at the same learning rate, relative to its twin.

    The twin is the pace whose first steps are the control's, with the smallest batch if there are several.
    Controls without a twin are left out; nan if none is left.
    """
    shares = []
    for own in by_model(curves(runs, DRIFT, CONTROL)):
        for control in (curve for curve in own if curve.part == CONTROL):
            rate, last = control.pace.learning_rate, len(control.steps)
            twins = [
                curve
                for curve in own
                if curve.part == DRIFT
                and curve.pace.learning_rate == rate
                and curve.steps[:last] == control.steps
            ]
            if twins:
                twin = min(twins, key=lambda curve: curve.pace.batch_size)
                shares.append(float(control.fallen[-1] / twin.fallen[last - 1]))
    return _mean(shares)


def excess_loss(runs: Sequence[pl.DataFrame]) -> float:
    """log2 of the excess loss of raw over averaged weights, over η Tr H / 4B; sums over all checkpoints."""
    table = with_start(runs)
    if table.is_empty():
        return math.nan
    rows = table.filter(pl.col(PART) == DRIFT)
    excess = float((rows["raw_loss"] - rows["loss"]).sum())
    predicted = float((rows["learning_rate"] * rows["trace"] / (4 * rows["batch_size"])).sum())
    return math.log2(excess / predicted) if excess > 0 and predicted > 0 else math.nan


def points_per_halving(runs: Sequence[pl.DataFrame]) -> float:
    """Gain in accuracy from the start to the last checkpoint, per halving of the trace; sums over runs."""
    table = with_start(runs)
    if table.is_empty():
        return math.nan
    last = table.filter((pl.col(PART) == DRIFT) & (pl.col("step") == pl.col("step").max().over("run")))
    gained = float((last["accuracy"] - last["start_accuracy"]).sum())
    return 100 * gained / float((last["start_trace"] / last["trace"]).log(2).sum())


def speed_over_theory(runs: Sequence[pl.DataFrame]) -> float:
    """log2 of the speed at which the trace falls, over that predicted from derivatives; sums over runs.

    The measured speed at a checkpoint is Tr / τ times the slope of log Tr over log τ between the checkpoints
    before and after it.
    """
    table = with_start(runs)
    if "predicted_descent" not in table.columns:
        return math.nan
    measured = predicted = 0.0
    for run in table.filter(pl.col(PART) == DRIFT).partition_by("run", maintain_order=True):
        rows = run.to_dicts()
        for before, at, after in zip(rows, rows[1:], rows[2:], strict=False):
            if at["predicted_descent"] is not None:
                pace = Pace(at["learning_rate"], at["batch_size"])
                slope = math.log(before["trace"] / after["trace"])
                slope /= math.log(pace.time(after["step"]) / pace.time(before["step"]))
                measured += slope * at["trace"] / pace.time(at["step"])
                predicted += at["predicted_descent"]
    return math.log2(measured / predicted) if measured > 0 and predicted > 0 else math.nan


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


CLAIMS = (
    Claim(
        name="loss-stands",
        sentence="Along SGD the loss stays what it is.",
        paper="“after the validation pre-training loss converges” (Section 4)",
        measure="largest change of a pace's mean exact loss since the start, over the loss at the start",
        unit="",
        claimed=below(0.005),
        statistic=change_of_loss,
        kind="premise",
        reason="four times the window of the paper's losses: each pace settles at a loss of its own",
    ),
    Claim(
        name="trace-falls",
        sentence="Along SGD the trace of the Hessian falls.",
        paper="“a clear decreasing trend” (Section 4; no number given)",
        measure="mean over paces of log2(trace at the start / at the last checkpoint)",
        unit="halvings",
        claimed=above(0.25),
        statistic=halvings_of_trace,
        reason="a sixth of the trace, several times its error",
    ),
    Claim(
        name="one-clock",
        sentence="Runs of all learning rates and batches lie on one curve over τ = η²k / 4B.",
        paper=NO_CLOCK,
        measure=(
            "largest distance between two paces' mean log2 trace at one τ, over the mean fall at the last τ; "
            "of the models where it is largest"
        ),
        unit="of the fall",
        claimed=below(0.25),
        statistic=distance_between_paces,
        reason="without the clock the paces would be apart by about the whole fall",
    ),
    Claim(
        name="quarter-speed",
        sentence="At one learning rate and step a batch four times as large has drifted a quarter as far.",
        paper=NO_CLOCK,
        measure=(
            "mean log2 of the steps that the larger batch takes to a trace over those of the smaller, less "
            "2; pairs of paces of one learning rate with batches of B and 4B"
        ),
        unit="doublings",
        claimed=within(0.5),
        statistic=lag_of_larger_batches,
        reason="without noise in the law it would be -2",
    ),
    Claim(
        name="speed",
        sentence="The trace falls as fast as its own gradient says, to within a factor of two.",
        paper="dθ/dt = -(1/4B) ∇_Γ Tr ∇²L (Theorem 3.3; not compared with runs of a language model)",
        measure=(
            "log2 of -dTr/dτ as measured along the first pace, at the second checkpoint, over ∇Tr · "
            "exp(-ηk F) ∇Tr of that checkpoint, F the Fisher information; sums over runs"
        ),
        unit="doublings",
        claimed=within(1.0),
        statistic=speed_over_theory,
        reason="a factor of two: first order in η, and curvatures without a gap",
    ),
    Claim(
        name="no-noise-no-fall",
        sentence="Without the noise the trace does not fall.",
        paper="the drift is the gradient noise's (Theorem 3.3; no number given)",
        measure="halvings of the control's trace over those of its twin: one learning rate, as many steps",
        unit="of the twin's fall",
        claimed=below(0.5),
        statistic=share_that_falls_without_noise,
        reason="descent that needs no noise would make them equal",
    ),
    Claim(
        name="excess-loss",
        sentence="What noise adds to the loss is η Tr H / 4B.",
        paper="none: what a quadratic loss and noise of covariance H / B give",
        measure="log2 of (loss of raw weights - of averaged ones) over η Tr H / 4B, sums over checkpoints",
        unit="doublings",
        claimed=within(0.5),
        statistic=excess_loss,
        reason="within a factor of √2",
    ),
    Claim(
        name="flatter-is-better",
        sentence="As the trace halves along SGD, accuracy rises by two points.",
        paper="+1.6 and +4.0 percent points as the trace falls (Section 4)",
        measure="gain of accuracy from start to last checkpoint over halvings of the trace; sums of runs",
        unit="percent points a halving",
        claimed=above(2.0),
        statistic=points_per_halving,
        reason="about what the paper's runs gain",
    ),
)
"""The bounds were fixed on runs with pilot seeds. Without the clock, two paces whose η²/B differ fourfold are
half of the fall apart and more."""

IN_SHORT = tuple(claim for claim in CLAIMS if claim.name not in ("quarter-speed", "speed"))
"""Those that the short form can answer: none of its paces differ by the batch alone, and no speed is
predicted."""
