"""By which powers of learning rate and batch the steps to a fall of the trace go.

By Theorem 3.3 steps go as η^-2 B. To first order SGD at a finite rate descends L + (η/4B) Tr ∇²L, on average,
in steps of η: the number of steps to a fall is then g(η/B) / η, whatever the fall. So at one η/B it goes as
1/η, and what departs from theory is g, which is B/η only as long as L does not resist.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
import polars as pl
from jaxtyping import Float

from isoloss.experiments.drift_runs import RelativeSchedule
from isoloss.experiments.drift_statistics import AnyClock, Curve, by_model, curves
from isoloss.experiments.grammar_runs import DRIFT

HALF, WHOLE = 0.5, 1.0
"""Falls, as shares of the largest that all schedules of a start reach."""

Exponent = Callable[["StepsToAFall"], float]


@dataclass(frozen=True)
class StepsToAFall:
    """For each schedule from one start, log2 of learning rate, batch and steps to a fall."""

    rates: Float[np.ndarray, " n"]
    batches: Float[np.ndarray, " n"]
    steps: Float[np.ndarray, " n"]

    @property
    def exponents(self) -> tuple[float, float]:
        """a and b of steps ∝ η^-a B^b by least squares; nan, nan where these do not tell them apart."""
        design = np.column_stack([np.ones_like(self.rates), -self.rates, self.batches])
        if len(self.steps) < 4 or np.linalg.matrix_rank(design) < 3:
            return math.nan, math.nan
        _, a, b = np.linalg.lstsq(design, self.steps, rcond=None)[0]
        return float(a), float(b)

    @property
    def bend(self) -> float:
        """How much larger the exponent of 1/η is at the higher rates than at the lower, at one η/B.

        The mean over each ratio η/B that at least three schedules have; nan if none has.
        """
        ratios = np.round(self.rates - self.batches, 6).tolist()
        schedules = sorted(zip(ratios, self.rates.tolist(), self.steps.tolist(), strict=True))
        bends = []
        for _, alike in groupby(schedules, key=lambda schedule: schedule[0]):
            slopes = [(high[2] - low[2]) / (low[1] - high[1]) for low, high in pairwise(list(alike))]
            if len(slopes) > 1:
                bends.append(slopes[-1] - slopes[0])
        return float(np.mean(bends)) if bends else math.nan


def steps_to(group: Sequence[Curve], share: float) -> StepsToAFall:
    """Of the curves of one start, the steps to `share` of the fall that all of them reach.

    Steps are the mean of those averaged over. Without schedules that are past that fall at their first
    checkpoint, of which only a bound is known.
    """
    risen = [np.maximum.accumulate(curve.fallen) for curve in group]
    fall = share * min((fallen[-1] for fallen in risen), default=math.nan)
    inside = [
        (curve.schedule, float(np.interp(fall, fallen, np.log2(curve.times))))
        for curve, fallen in zip(group, risen, strict=True)
        if fall > 0 and fallen[0] <= fall
    ]
    return StepsToAFall(
        np.log2([schedule.learning_rate for schedule, _ in inside]),
        np.log2([schedule.batch_size for schedule, _ in inside]),
        np.array([time - math.log2(schedule.time_per_step) for schedule, time in inside]),
    )


def rate_exponent(found: StepsToAFall) -> float:
    """a of steps ∝ η^-a B^b."""
    return found.exponents[0]


def batch_exponent(found: StepsToAFall) -> float:
    """b of steps ∝ η^-a B^b."""
    return found.exponents[1]


def bend(found: StepsToAFall) -> float:
    """See `StepsToAFall`."""
    return found.bend


@dataclass(frozen=True)
class OverFalls:
    """The mean of an `exponent` over the models of a seed and over half and whole of their falls.

    Or, `deepening`, by how much more it is of the whole fall than of half of it.
    """

    exponent: Exponent
    deepening: bool = False
    clock: AnyClock = RelativeSchedule

    def __call__(self, runs: Sequence[pl.DataFrame]) -> float:
        """See the class; nan where the schedules do not settle it."""
        values = [
            value for group in by_model(curves(runs, DRIFT, clock=self.clock)) for value in self._of(group)
        ]
        return float(np.mean(values)) if values else math.nan

    def _of(self, group: Sequence[Curve]) -> Iterator[float]:
        half, whole = (self.exponent(steps_to(group, share)) for share in (HALF, WHOLE))
        value = whole - half if self.deepening else (half + whole) / 2
        if math.isfinite(value):
            yield value
