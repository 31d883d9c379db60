"""Statistics across models: over sizes at one loss or at the end, and among those of one group."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float, Shaped

from isoloss.experiments.statistics.along_runs import (
    Distance,
    Scaled,
    range_in_doublings,
    relative_range,
    theil_sen_slope,
)
from isoloss.experiments.statistics.same_loss import LOSS_WINDOW, RunAtLoss, matched_losses
from isoloss.experiments.statistics.seed_bootstrap import Frames, Statistic, once_per_frames


@dataclass(frozen=True)
class SlopeOverSizes:
    """The slope of a column per doubling of parameters, all sizes of one seed at one loss.

    The loss is the lowest that the runs of all widths reach; between checkpoints, the column is
    interpolated. The entropy being the same for all, so is KL there. `at_one_step` takes the last checkpoints
    instead, whatever their losses. It is nan for widths that have no loss in common. `less` names a column
    with one number per run, e.g. for the untrained model, whose slope is subtracted.
    """

    of: Scaled
    less: str | None = None
    at_one_step: bool = False

    def __call__(self, runs: Frames) -> float:
        by_width = sorted(runs, key=lambda run: run["width"][0])
        values = self._at_last_step(by_width) if self.at_one_step else self._at_one_loss(by_width)
        if len(values) < 2:
            return math.nan
        scaled = self.of.scale(np.array(values))
        if self.less is not None:
            scaled -= self.of.scale(_of_each(by_width, self.less))
        return theil_sen_slope(np.log2(_of_each(by_width, "parameters")), scaled)

    def _at_one_loss(self, runs: Frames) -> list[float]:
        matched = matched_losses(runs) if len(runs) > 1 else None
        places = zip(runs, matched.points, strict=True) if matched else ()
        return [RunAtLoss(run, point).value(self.of.column).value for run, point in places]

    def _at_last_step(self, runs: Frames) -> list[float]:
        return [float(run[self.of.column].drop_nulls()[-1]) for run in runs]


def _of_each(runs: Frames, column: str) -> Float[np.ndarray, " n"]:
    """The single number that each run has in a column, wherever it is."""
    return np.array([run[column].drop_nulls()[0] for run in runs], float)


def mean_by_width(runs: Sequence[pl.DataFrame], column: str) -> dict[int, float]:
    """The mean of the column at the runs' last checkpoints for each width, smallest width first."""
    return _by_width_at_the_end(runs, column, pl.col(column).mean())


def _by_width_at_the_end(runs: Sequence[pl.DataFrame], column: str, mean: pl.Expr) -> dict[int, float]:
    if not runs:
        return {}
    ends = [_end(column, run) for run in runs if len(run)]
    last = pl.DataFrame(ends, schema=["width", column], orient="row")
    return dict(last.group_by("width").agg(mean).sort("width").rows())


@once_per_frames
def _end(column: str, run: pl.DataFrame) -> tuple[int, float | None]:
    """The width, and the value at the last checkpoint."""
    return run["width"][-1], run[column][-1]


@dataclass(frozen=True)
class GapBetweenWidths:
    """How far apart the widths' mean values of a column at the last checkpoint are; nan for one width."""

    column: str
    distance: Distance = relative_range

    def __call__(self, runs: Frames) -> float:
        return self.distance(np.array(list(mean_by_width(runs, self.column).values())))


def gap_between_typical_losses(runs: Frames) -> float:
    """The range of the widths' typical final losses, over the mean loss; nan for fewer than two widths.

    A width's typical loss is the entropy plus the geometric mean of its runs' KL(distribution || model), so
    that one run that ends far above the others hardly moves it.
    """
    typical = list(_by_width_at_the_end(runs, "kl", pl.col("kl").log().mean().exp()).values())
    loss = list(mean_by_width(runs, "loss").values())
    return float(np.ptp(typical) / np.mean(loss)) if len(typical) > 1 else float("nan")


def saturated_width(runs: Frames) -> int | None:
    """The smallest width from which on all mean final losses are within `LOSS_WINDOW` of the lowest.

    None if that of the widest is not.
    """
    losses = mean_by_width(runs, "loss")
    bound = (1 + LOSS_WINDOW) * min(losses.values())
    above = [width for width, loss in losses.items() if loss > bound]
    return next((width for width in losses if width > max(above, default=0)), None)


def last_doubling_of_width(runs: Frames) -> float:
    """How much the mean KL at the last checkpoint still falls from the second-largest width to the largest.

    Per doubling of width, relative to the mean loss of the widest; nan for fewer than two widths.
    """
    kl, loss = (mean_by_width(runs, column) for column in ("kl", "loss"))
    if len(kl) < 2:
        return float("nan")
    before, widest = list(kl)[-2:]
    return float((kl[before] - kl[widest]) / loss[widest] / np.log2(widest / before))


def relative_fall_with_width(runs: Frames) -> float:
    """By which share of itself the mean KL at the last checkpoint falls for a doubling of the largest widths.

    From the second-largest to the largest, on the scale of logarithms; nan for fewer than two widths.
    """
    kl = mean_by_width(runs, "kl")
    if len(kl) < 2:
        return float("nan")
    before, widest = list(kl)[-2:]
    return float(1 - (kl[widest] / kl[before]) ** (1 / np.log2(widest / before)))


@dataclass(frozen=True)
class OfNarrowest:
    """A statistic of only the runs of the smallest width."""

    statistic: Statistic

    def __call__(self, runs: Frames) -> float:
        """See the class; nan for no runs."""
        if not runs:
            return float("nan")
        least = min(run["width"][0] for run in runs)
        return self.statistic([run for run in runs if run["width"][0] == least])


Rows = Callable[..., pl.DataFrame]
"""From the runs' frames and names of columns to a row for each model compared; an empty table without any."""


def about_group_means(
    group: Shaped[np.ndarray, " n"], values: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """The values less the mean of their group's.

    >>> about_group_means(np.array(["a", "b", "a"]), np.array([1.0, 5.0, 3.0])).tolist()
    [-1.0, 0.0, 1.0]
    """
    _, place = np.unique(group, return_inverse=True)
    deviations: Float[np.ndarray, " n"] = values - (np.bincount(place, values) / np.bincount(place))[place]
    return deviations


def slope_within(
    group: Shaped[np.ndarray, " n"], x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"]
) -> float:
    """The least-squares slope of y over x, an intercept for every group; nan where no x differ within one.

    >>> seed, x = np.array([1, 1, 2, 2]), np.array([0.0, 1.0, 0.0, 1.0])
    >>> slope_within(seed, x, np.array([5.0, 7.0, 1.0, 3.0]))
    2.0
    """
    apart, outcome = about_group_means(group, x), about_group_means(group, y)
    squares = float(apart @ apart)
    return float(apart @ outcome) / squares if squares > 0 else math.nan


@dataclass(frozen=True)
class PerDoubling:
    """How a column changes as the trace doubles, among the models of one group.

    The least-squares slope over log2 trace with an intercept for every value of `within`, over the `rows`;
    nan where no traces differ within a group.
    """

    of: Scaled
    rows: Rows
    within: str = "seed"

    def __call__(self, runs: Frames) -> float:
        rows = self.rows(runs, self.of.column, "trace")
        if rows.is_empty():
            return math.nan
        trace, outcome = (rows[name].cast(pl.Float64).to_numpy() for name in ("trace", self.of.column))
        return slope_within(rows[self.within].to_numpy(), np.log2(trace), self.of.scale(outcome))


@dataclass(frozen=True)
class DoublingsApart:
    """Mean over groups of log2 of the largest over the smallest value of a column among a group's models.

    Groups in which fewer than two models have a value are left out; nan if none is left.
    """

    column: str
    rows: Rows
    within: str = "seed"

    def __call__(self, runs: Frames) -> float:
        rows = self.rows(runs, self.column)
        groups = [] if rows.is_empty() else rows.partition_by(self.within)
        known = [group[self.column].drop_nulls().drop_nans().to_numpy() for group in groups]
        apart = [range_in_doublings(values) for values in known if len(values) > 1]
        return float(np.mean(apart)) if apart else math.nan
