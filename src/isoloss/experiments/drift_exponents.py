"""By which powers of learning rate and batch the steps to a fall of the trace go, and claims of ten grammars.

By Theorem 3.3 steps go as η^-2 B. To first order SGD at a finite rate descends L + (η/4B) Tr ∇²L, on average,
in steps of η: the number of steps to a fall is then g(η/B) / η, whatever the fall. So at one η/B it goes as
1/η, and what departs from theory is g, which is B/η only as long as L does not resist.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise

import numpy as np
import polars as pl
from jaxtyping import Float

from isoloss.experiments.claims import Claim
from isoloss.experiments.drift_runs import DRIFT, PART, START
from isoloss.experiments.drift_statistics import (
    Curve,
    by_model,
    change_of_loss,
    curves,
    distance_between_schedules,
    first_time,
    halvings_of_trace,
)
from isoloss.experiments.schedules import RelativeSchedule
from isoloss.experiments.shared.claims import premise_of_loss
from isoloss.experiments.statistics.seed_bootstrap import (
    Frames,
    Statistic,
    by_column,
    once_per_frames,
    statistic_of,
)
from isoloss.results.verdict import Region, above, below

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


def steps_to(group: Sequence[Curve], share: float) -> StepsToAFall:
    """Of the curves of one start, the steps to `share` of the fall that all of them reach.

    Steps are the mean of those averaged over. A fall reached several times counts at the first. Without
    schedules that are past that fall at their first checkpoint, of which only a bound is known.
    """
    risen = [np.maximum.accumulate(curve.fallen) for curve in group]
    fall = share * min((fallen[-1] for fallen in risen), default=math.nan)
    inside = [
        (curve.schedule, first_time(fall, fallen, np.log2(curve.times)))
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
    """How much larger the exponent of 1/η is at the higher rates than at the lower, at one η/B.

    The mean over each ratio η/B that at least three schedules have; nan if none has.
    """
    ratios = np.round(found.rates - found.batches, 6).tolist()
    schedules = sorted(zip(ratios, found.rates.tolist(), found.steps.tolist(), strict=True))
    bends = []
    for _, alike in groupby(schedules, key=lambda schedule: schedule[0]):
        slopes = [(high[2] - low[2]) / (low[1] - high[1]) for low, high in pairwise(list(alike))]
        if len(slopes) > 1:
            bends.append(slopes[-1] - slopes[0])
    return float(np.mean(bends)) if bends else math.nan


@dataclass(frozen=True)
class OverFalls:
    """The mean of an `exponent` over the models of a seed and over half and whole of their falls.

    Or, `deepening`, by how much more it is of the whole fall than of half of it. It is nan where the
    schedules do not settle it.
    """

    exponent: Exponent
    deepening: bool = False

    def __call__(self, runs: Sequence[pl.DataFrame]) -> float:
        models = by_model(curves(runs, DRIFT, clock=RelativeSchedule))
        values = [value for group in models for value in self._of(group)]
        return float(np.mean(values)) if values else math.nan

    def _of(self, group: Sequence[Curve]) -> Iterator[float]:
        half, whole = (self.exponent(steps_to(group, share)) for share in (HALF, WHOLE))
        value = whole - half if self.deepening else (half + whole) / 2
        if math.isfinite(value):
            yield value


NO_CLOCK = "none: the theorem is about the limit η → 0, and the paper shows one language"
LEFT_OUT = 2
"""On how many grammars a claim need not hold: it is about the one that is third from the worst."""
THIRD = "on the grammar where it is third {}"

ONE_CLOCK = 0.25
"""The share of the fall within which the curves of one grammar lie, as for `drift`."""


def by_language(runs: Frames) -> list[list[pl.DataFrame]]:
    """The runs on each language, which their column `language` names; without those that name none."""
    return [group for name, group in by_column(runs, "language").items() if name is not None]


@dataclass(frozen=True)
class WorstBut:
    """The worst value over languages of the `statistic`, once the `left_out` worst are left out.

    That it is in a region says that the statistic is so on all languages but these. The worst is the largest,
    or, unless `largest`, the smallest; an undefined value is worse than any. It is nan if it is itself
    undefined, and where no more languages are there than are left out.

    >>> runs = [pl.DataFrame({"language": [str(fall)], "fall": [fall]}) for fall in (1.0, 4.0, 9.0)]
    >>> worst = WorstBut(lambda own: own[0]["fall"][0], left_out=1, largest=False)
    >>> worst(runs), WorstBut(worst.statistic, left_out=0, largest=True)(runs)
    (4.0, 9.0)
    """

    statistic: Statistic
    left_out: int
    largest: bool

    def __call__(self, runs: Frames) -> float:
        sign = -1.0 if self.largest else 1.0
        values = [sign * statistic_of(self.statistic, *group) for group in by_language(runs)]
        ordered = sorted(-math.inf if math.isnan(value) else value for value in values)
        value = ordered[self.left_out] if len(ordered) > self.left_out else math.nan
        return sign * value if math.isfinite(value) else math.nan


def divergence_at_the_starts(runs: Frames) -> float:
    """KL(distribution || model) of the starts over the entropy, median over seeds; nan without starts."""
    starts = [run for run in runs if {PART, "kl", "loss"} <= {*run.columns} and run[PART][0] == START]
    shares = [float((run["kl"] / (run["loss"] - run["kl"]))[-1]) for run in starts]
    return float(np.median(shares)) if shares else math.nan


def rate_beside_batch(runs: Frames) -> float:
    """a - b of steps ∝ η^-a B^b, to half of the fall that all schedules reach: of 1/η at one η/B."""
    a, b = _exponents(*runs)
    return a - b


def batch_alone(runs: Frames) -> float:
    """b of the same."""
    return _exponents(*runs)[1]


@dataclass(frozen=True)
class FromOne:
    """How far the `exponent` of some runs is from 1."""

    exponent: Statistic

    def __call__(self, runs: Frames) -> float:
        return abs(self.exponent(runs) - 1.0)


@once_per_frames
def _exponents(*runs: pl.DataFrame) -> tuple[float, float]:
    medians = curves(runs, DRIFT, clock=RelativeSchedule, centre=pl.Expr.median)
    return steps_to(medians, HALF).exponents


MEDIAN_LOSS = partial(change_of_loss, centre=pl.Expr.median)
MEDIAN_FALL = partial(halvings_of_trace, clock=RelativeSchedule, centre=pl.Expr.median)
MEDIAN_DISTANCE = partial(distance_between_schedules, clock=RelativeSchedule, centre=pl.Expr.median)
POWERS = (
    "steps ∝ η^-a B^b to half of the fall that all schedules reach, by least squares on medians over seeds"
)


def _not_above(statistic: Statistic) -> WorstBut:
    return WorstBut(statistic, LEFT_OUT, largest=True)


def _exponent_is_one(name: str, scales_as: str, exponent: str, statistic: Statistic, reason: str) -> Claim:
    return Claim(
        name=name,
        sentence=(
            "On at least eight of ten grammars the number of steps to a given fall of the trace scales "
            f"roughly as {scales_as}."
        ),
        paper=NO_CLOCK,
        measure=f"distance from 1 of {exponent} of {POWERS}; {THIRD.format('largest')}",
        unit="",
        claimed=below(0.5),
        statistic=_not_above(FromOne(statistic)),
        reason=reason,
        lowest=0.0,
    )


CLAIMS_OF_GRAMMARS = (
    premise_of_loss(
        "loss-stands",
        sentence="On at least eight of ten grammars the loss does not change along SGD.",
        paper="“after the validation pre-training loss converges” (Section 4)",
        measure=(
            "largest change of a schedule's exact loss since the start, by medians over seeds, over the "
            f"median loss at the start; {THIRD.format('largest')}"
        ),
        bound=0.005,
        statistic=_not_above(MEDIAN_LOSS),
        reason="as for drift: four times the spread of the paper's losses",
    ),
    Claim(
        name="trace-falls",
        sentence="On at least eight of ten grammars the trace of the Hessian falls along SGD.",
        paper="“a clear decreasing trend” (Section 4; no number given)",
        measure=(
            "mean over schedules of the median of log2(trace at the start / at the last checkpoint); "
            f"{THIRD.format('smallest')}"
        ),
        unit="halvings of the trace",
        claimed=above(0.15),
        statistic=WorstBut(MEDIAN_FALL, LEFT_OUT, largest=False),
        reason="a tenth of the trace, which is several times its error",
    ),
    Claim(
        name="one-clock",
        sentence=(
            "On at least eight of ten grammars runs of all learning rates and batches lie on one curve over "
            "τ = η²k / 4B."
        ),
        paper=NO_CLOCK,
        measure=(
            "largest distance between two schedules' medians of log2(trace / the start's trace) at one τ, "
            f"over the mean fall at the last τ; {THIRD.format('largest')}"
        ),
        unit="of the trace's fall apart",
        claimed=below(ONE_CLOCK),
        statistic=_not_above(MEDIAN_DISTANCE),
        reason="as in drift; it would be 0.7 here if only ηk mattered, and 1.7 if the batch did not",
        lowest=0.0,
    ),
    _exponent_is_one(
        "rate-exponent",
        "1/η at equal η/B",
        "a - b",
        rate_beside_batch,
        "half of the distance from steps that do not depend on the rate",
    ),
    _exponent_is_one(
        "batch-exponent",
        "B at a given learning rate",
        "b",
        batch_alone,
        "half of the distance from a law without the batch, such as AdamW's",
    ),
)

OF_A_GRAMMAR: tuple[tuple[str, str, Region, Statistic], ...] = (
    ("fall", "fall of the trace (halvings)", above(0.15), MEDIAN_FALL),
    ("distance", "distance between schedules (as a share of the fall)", below(ONE_CLOCK), MEDIAN_DISTANCE),
    ("rate", "exponent of 1/η at equal η/B", Region(0.5, 1.5), rate_beside_batch),
    ("batch", "exponent of B at equal η", Region(0.5, 1.5), batch_alone),
)
"""Each effect by itself on one grammar: its column, title, what is claimed, and the statistic."""
