"""Runs as curves over the drift's time, and the statistics that claims about the drift are made of."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, permutations

import numpy as np
import polars as pl
from jaxtyping import Float

from isoloss.experiments.drift_runs import CONTROL, DRIFT, PART, START
from isoloss.experiments.schedules import Clock, RelativeSchedule, Schedule

MODEL = ("language", "width")
"""The columns that identify curves that can coincide: those from the same starts."""

Centre = Callable[[pl.Expr], pl.Expr]
"""Over seeds: `pl.Expr.mean`, or `pl.Expr.median`, which a run that leaves its minimum moves little."""

AnyClock = Callable[[float, int], Clock]
"""From the columns `learning_rate` and `batch_size` to the clock that applies to a table's runs."""


@dataclass(frozen=True)
class Curve:
    """One branch from the models of one width on one language, at its n checkpoints, over all seeds.

    `steps` are the branch's, from the start on; `fallen` is log2(quantity at the start / quantity), in
    halvings.
    """

    model: tuple[str, int]
    part: str
    schedule: Clock
    steps: tuple[int, ...]
    times: Float[np.ndarray, " n"]
    fallen: Float[np.ndarray, " n"]


def with_start(
    runs: Sequence[pl.DataFrame], columns: Sequence[str] = ("trace", "loss", "accuracy")
) -> pl.DataFrame:
    """All checkpoints of runs that continue from a start, with its `columns` as `start_trace` and so on.

    Rows of runs that have no part in the drift are left out, and so are runs whose start is missing.
    """
    drifting = [run for run in runs if PART in run.columns and run[PART][0] is not None]
    if not drifting:
        return pl.DataFrame()
    # Frames of the same columns are joined faster; a chunk a run would make all else slow.
    alike = all(run.columns == drifting[0].columns for run in drifting)
    table = pl.concat(drifting, how="vertical_relaxed" if alike else "diagonal_relaxed", rechunk=True)
    starts = table.filter(pl.col(PART) == START).select(
        "seed", *MODEL, *(pl.col(name).alias(f"start_{name}") for name in columns)
    )
    return table.filter(pl.col(PART) != START).join(starts, on=["seed", *MODEL], maintain_order="left")


def curves(
    runs: Sequence[pl.DataFrame],
    *parts: str,
    of: str = "trace",
    clock: AnyClock = Schedule,
    centre: Centre = pl.Expr.mean,
) -> list[Curve]:
    """A curve for each branch of these `parts`, for each model: of the quantity in the column `of`."""
    table = with_start(runs, (of,))
    if table.is_empty():
        return []
    fallen = (pl.col(f"start_{of}") / pl.col(of)).log(2)
    by = [*MODEL, PART, "learning_rate", "batch_size", "pace"]
    means = table.filter(pl.col(PART).is_in(parts)).group_by(*by, "step").agg(centre(fallen).alias("fallen"))
    return [_curve(rows, clock) for rows in means.sort(*by, "step").partition_by(by, maintain_order=True)]


def by_model(found: Sequence[Curve]) -> list[list[Curve]]:
    """The curves of each model, grouped: those that can coincide."""
    ordered = sorted(found, key=lambda curve: curve.model)
    return [list(group) for _, group in groupby(ordered, key=lambda curve: curve.model)]


def largest_distance(group: Sequence[Curve]) -> float:
    """The largest distance of two of the curves at one time, over their mean fall at the last.

    nan if they have not fallen, and for a single curve, which coincides with itself whatever the clock.
    """
    if len(group) < 2:
        return math.nan
    fallen = np.stack([curve.fallen for curve in group])
    fall = fallen[:, -1].mean()
    return float(np.ptp(fallen, axis=0).max() / fall) if fall > 0 else math.nan


def steps_apart(small: Curve, large: Curve) -> list[float]:
    """log2(steps of the large batch / of the small one to the same fall), where both have reached it."""
    risen = np.maximum.accumulate(small.fallen)
    inside = (large.fallen >= risen[0]) & (large.fallen <= risen[-1])
    times = [first_time(fall, risen, np.log2(small.times)) for fall in large.fallen[inside].tolist()]
    speeds = large.schedule.time_per_step / small.schedule.time_per_step
    ratios: list[float] = (np.log2(large.times[inside] / speeds) - times).tolist()
    return ratios


def first_time(fall: float, risen: Float[np.ndarray, " n"], times: Float[np.ndarray, " n"]) -> float:
    """When `risen`, which never falls, first comes to a `fall` in its range; linear between checkpoints.

    Measured falls increase except for noise: handed their running maximum, a fall reached several times
    counts at the first.

    >>> risen, times = np.array([0.1, 0.5, 0.5, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])
    >>> first_time(0.5, risen, times), first_time(0.75, risen, times)
    (2.0, 3.5)
    """
    after = int(np.searchsorted(risen, fall))
    if risen[after] == fall:
        return float(times[after])
    between = slice(after - 1, after + 1)
    return float(np.interp(fall, risen[between], times[between]))


def _curve(rows: pl.DataFrame, clock: AnyClock) -> Curve:
    first = rows.row(0, named=True)
    schedule = clock(first["learning_rate"], first["batch_size"])
    steps = tuple(rows["step"].to_list())
    times = np.array([schedule.time(step) for step in steps])
    model = (first["language"], first["width"])
    return Curve(model, first[PART], schedule, steps, times, rows["fallen"].to_numpy())


def distance_between_schedules(
    runs: Sequence[pl.DataFrame], clock: AnyClock = Schedule, centre: Centre = pl.Expr.mean
) -> float:
    """Largest distance between two schedules at one time, over the mean fall at the last time.

    The largest value over models with at least two schedules; nan if there are none, or if the trace of one
    has not fallen.
    """
    found = [group for group in by_model(curves(runs, DRIFT, clock=clock, centre=centre)) if len(group) > 1]
    return float(np.max([largest_distance(group) for group in found])) if found else math.nan


def change_of_loss(runs: Sequence[pl.DataFrame], centre: Centre = pl.Expr.mean) -> float:
    """Largest change of a pace's mean loss since the start, at any checkpoint, over the loss at the start.

    Or of its median loss, by the `centre`.
    """
    table = with_start(runs, ("loss",))
    if table.is_empty():
        return math.nan
    by = ["language", "width", "pace", "step"]
    change = centre(pl.col("loss")) / centre(pl.col("start_loss")) - 1
    means = table.filter(pl.col(PART) == DRIFT).group_by(by).agg(change.abs().alias("change"))
    changes = means["change"].to_list()
    return float(max(changes, default=math.nan))


def halvings_of_trace(
    runs: Sequence[pl.DataFrame], of: str = "trace", clock: AnyClock = Schedule, centre: Centre = pl.Expr.mean
) -> float:
    """Mean over schedules of log2(trace at the start / at the last checkpoint); or of another quantity."""
    return _mean(
        [float(curve.fallen[-1]) for curve in curves(runs, DRIFT, of=of, clock=clock, centre=centre)]
    )


def share_that_falls_without_noise(
    runs: Sequence[pl.DataFrame], clock: AnyClock = Schedule, centre: Centre = pl.Expr.mean
) -> float:
    """How far the control falls in the same number of steps at the same learning rate, relative to its twin.

    The twin is the schedule whose first steps are the control's, with the smallest batch if there are
    several. Controls without a twin are left out; nan if none is left, or if a twin does not fall.
    """
    shares = []
    for group in by_model(curves(runs, DRIFT, CONTROL, clock=clock, centre=centre)):
        for control in (curve for curve in group if curve.part == CONTROL):
            rate, last = control.schedule.learning_rate, len(control.steps)
            twins = [
                curve
                for curve in group
                if curve.part == DRIFT
                and curve.schedule.learning_rate == rate
                and curve.steps[:last] == control.steps
            ]
            if twins:
                twin = min(twins, key=lambda curve: curve.schedule.batch_size)
                fallen = float(twin.fallen[last - 1])
                shares.append(float(control.fallen[-1]) / fallen if fallen > 0 else math.nan)
    return _mean(shares)


def lag_of_larger_batches(runs: Sequence[pl.DataFrame], clock: AnyClock = Schedule) -> float:
    """Mean log2 of how many times more steps a larger batch takes to a trace, over log2 of the batch ratio.

    Over all pairs of schedules with the same learning rate, and their checkpoints; 1 by SGD's clock.
    """
    found = curves(runs, DRIFT, clock=clock)
    ratios = [
        ratio / math.log2(large.schedule.batch_size / small.schedule.batch_size)
        for group in by_model(found)
        for small, large in permutations(group, 2)
        if small.schedule.learning_rate == large.schedule.learning_rate
        and small.schedule.batch_size < large.schedule.batch_size
        for ratio in steps_apart(small, large)
    ]
    return float(np.mean(ratios)) if ratios else math.nan


def root_before_trace(runs: Sequence[pl.DataFrame], part: str, beside: str) -> float:
    """By how many halvings more (Σ √H_ii)² falls than the trace, along `part` minus along `beside`.

    From the start to the last checkpoint. Both differences are 0 if all curvatures shrink alike.
    """

    def ahead(branch: str) -> float:
        root, trace = (
            [curve.fallen[-1] for curve in curves(runs, branch, of=of)] for of in ("root_fisher", "trace")
        )
        return 2 * float(np.mean(root)) - float(np.mean(trace)) if root else math.nan

    return ahead(part) - ahead(beside)


def relative_to_the_start(runs: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The checkpoints of all schedules, with rates from shares of the stable one, which become `share`."""
    table = with_start(runs, ("trace", "stable_rate"))
    if table.is_empty():
        return table
    share = pl.col("learning_rate")
    rates = share * pl.col("start_stable_rate")
    return table.filter(pl.col(PART) == DRIFT).with_columns(
        share.alias("share"), rates.alias("learning_rate")
    )


def excess_loss(runs: Sequence[pl.DataFrame]) -> float:
    """log2 of the excess loss of raw over averaged weights, over η Tr H / 4B; sums over all checkpoints.

    η is a share of the stable rate.
    """
    rows = relative_to_the_start(runs)
    if rows.is_empty():
        return math.nan
    return excess_over(rows["learning_rate"] * rows["trace"] / (4 * rows["batch_size"]), rows)


def adamw_excess_loss(runs: Sequence[pl.DataFrame]) -> float:
    """The same along AdamW, over α Σ √H_ii / 4√B."""
    table = with_start(runs, ())
    if table.is_empty():
        return math.nan
    table = table.filter(pl.col(PART) == DRIFT)
    predicted = table["learning_rate"] * table["root_fisher"] / (4 * table["batch_size"].sqrt())
    return excess_over(predicted, table)


def excess_over(predicted: pl.Series, rows: pl.DataFrame) -> float:
    """log2 of the excess loss of raw over averaged weights, over that predicted; sums over the rows."""
    excess, expected = float((rows["raw_loss"] - rows["loss"]).sum()), float(predicted.sum())
    return math.log2(excess / expected) if excess > 0 and expected > 0 else math.nan


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
    before and after it; τ is a `RelativeSchedule`'s time, times the square of the stable rate over 4.
    """
    measured = predicted = 0.0
    rows = relative_to_the_start(runs)
    if "predicted_descent" not in rows.columns:
        return math.nan
    for run in rows.partition_by("run", maintain_order=True):
        for before, at, after in zip(*(run[start:].to_dicts() for start in range(3)), strict=False):
            if at["predicted_descent"] is not None:
                schedule = RelativeSchedule(at["share"], at["batch_size"])
                first, time, last = (schedule.time(each["step"]) for each in (before, at, after))
                slope = math.log(before["trace"] / after["trace"]) / math.log(last / first)
                measured += slope * at["trace"] / time * 4 / at["start_stable_rate"] ** 2
                predicted += at["predicted_descent"]
    return math.log2(measured / predicted) if measured > 0 and predicted > 0 else math.nan


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan
