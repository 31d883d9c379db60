"""Equal loss as a tested statement: checkpoints of several runs, matched by loss."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from isoloss.errors import BadInput
from isoloss.results.estimate import CONFIDENCE, Estimate
from isoloss.results.verdict import Verdict, below


@dataclass(frozen=True)
class StepCurve:
    """Estimates at increasing `steps`, interpolated linearly in the step's logarithm.

    Raises BadInput for no steps, steps that do not increase from at least 1, or numbers that are not finite.
    """

    run: str
    steps: tuple[int, ...]
    estimates: tuple[Estimate, ...]

    def __post_init__(self) -> None:
        rising = list(self.steps) == sorted(set(self.steps))
        if not self.steps or not rising or self.steps[0] < 1 or len(self.steps) != len(self.estimates):
            raise BadInput(
                f"the run {self.run} needs an estimate at each of its steps, which rise from at least 1, not "
                f"{len(self.estimates)} at {self.steps}"
            )
        for step, estimate in zip(self.steps, self.estimates, strict=True):
            if not (math.isfinite(estimate.value) and 0 <= estimate.standard_error < math.inf):
                raise BadInput(f"the run {self.run} has {estimate} at step {step}, which is not finite")

    def at(self, step: float, log_step_error: float = 0.0) -> Estimate:
        """The value at `step`, which must lie between the first and the last step measured.

        Its error combines in quadrature that of the interpolation, w_1 e_1 + w_2 e_2, valid for any
        correlation of the two, and the slope times `log_step_error`, the standard error of the step's
        logarithm. Raises BadInput outside the steps.

        >>> curve = StepCurve("a", (100, 400), (Estimate(2.0, 0.1, 50), Estimate(1.0, 0.3, 50)))
        >>> curve.at(200)
        Estimate(value=1.5, standard_error=0.2, n=50, degrees_of_freedom=49.0)
        """
        if not self.steps[0] <= step <= self.steps[-1]:
            raise BadInput(
                f"step {step:g} of the run {self.run} lies outside its steps {self.steps[0]} to "
                f"{self.steps[-1]}; nothing is known there"
            )
        place, share = self.place(step)
        before, after = self.estimates[place], self.estimates[min(place + 1, len(self.steps) - 1)]
        moved = log_step_error * self.slope(step) if log_step_error else 0.0
        interpolated = (1 - share) * before.standard_error + share * after.standard_error
        value = (1 - share) * before.value + share * after.value
        return Estimate(value, math.hypot(interpolated, moved), min(before.n, after.n))

    def place(self, step: float) -> tuple[int, float]:
        """The index of the measured step before `step`, and the share of the way to the next, by logarithms.

        At a measured step, all the way from the one before it; 0 and 0 for a curve of one step.
        """
        if len(self.steps) == 1:
            return 0, 0.0
        place = max(bisect_left(self.steps, step), 1) - 1
        before, after = self.steps[place : place + 2]
        return place, math.log(step / before) / math.log(after / before)

    def slope(self, step: float) -> float:
        """The rise of the value per unit of the step's logarithm, over that interval; 0 for one step."""
        if len(self.steps) == 1:
            return 0.0
        place, _ = self.place(step)
        before, after = self.estimates[place : place + 2]
        return (after.value - before.value) / math.log(self.steps[place + 1] / self.steps[place])


@dataclass(frozen=True)
class MatchedCheckpoint:
    """Where a run has the matched loss: a checkpoint, or a step between two.

    `log_step_error` is the standard error of the step's logarithm: that of the loss, also at a checkpoint,
    divided by the slope before it; 0 at the first, before which none is known, and for the run whose own
    loss the matched one is by definition. Pass it to `StepCurve.at`, with the step, for the run's other
    measurements there.
    """

    run: str
    step: float
    loss: Estimate
    log_step_error: float = 0.0


@dataclass(frozen=True)
class MatchedLosses:
    """One point of each run, and whether their losses are the same to within `threshold` nats."""

    points: tuple[MatchedCheckpoint, ...]
    threshold: float

    @property
    def verdict(self) -> Verdict:
        """Whether the spread, largest minus smallest loss, is below the threshold, by its 95 % interval.

        The error of the spread treats the two runs' errors as independent, which overestimates it for runs
        measured on the same evaluation set; there, `paired_difference` of the two losses is more powerful.
        """
        lowest, *_, highest = sorted((point.loss for point in self.points), key=lambda loss: loss.value)
        error = math.hypot(highest.standard_error, lowest.standard_error)
        spread = Estimate(highest.value - lowest.value, error, min(point.loss.n for point in self.points))
        return below(self.threshold).verdict(*spread.interval(CONFIDENCE))


def interpolated_to_loss(
    losses: Sequence[StepCurve], threshold: float, loss: float | None = None
) -> MatchedLosses:
    """Where each run first falls to `loss` nats, interpolated linearly in the logarithm of the step.

    `loss` defaults to the lowest that every run reaches, which is that of one run. The error of the step's
    logarithm is the loss's error divided by the slope; where that run's loss is the target, its own step has
    none, and the others' have the errors of both losses, as if independent. Raises BadInput when the runs'
    losses do not overlap, or not at `loss`.

    >>> def curve(run, *values):
    ...     return StepCurve(run, (100, 200, 400), tuple(Estimate(v, 0.001, 50) for v in values))
    >>> matched = interpolated_to_loss([curve("a", 2.0, 1.5, 1.2), curve("b", 1.6, 1.4, 1.3)], threshold=0.01)
    >>> [(point.run, round(point.step), round(point.loss.value, 9)) for point in matched.points]
    [('a', 317, 1.3), ('b', 400, 1.3)]
    """
    if len(losses) < 2:
        raise BadInput(f"losses are matched between at least 2 runs, not {len(losses)}")
    if not threshold > 0:
        raise BadInput(f"the threshold of a common loss must be above 0 nats, not {threshold}")
    reached = [min(loss.value for loss in curve.estimates) for curve in losses]
    lowest = max(reached)
    highest = min(curve.estimates[0].value for curve in losses)
    if lowest > highest:
        raise BadInput(
            f"the runs have no loss in common: {_ranges(losses)}; leave earlier checkpoints of the runs that "
            "are ahead, or train the others on"
        )
    wanted = lowest if loss is None else loss
    if not lowest <= wanted <= highest:
        raise BadInput(
            f"not every run falls to a loss of {wanted:g} nats from above, only to those from {lowest:g} to "
            f"{highest:g}: {_ranges(losses)}"
        )
    if loss is not None:
        return MatchedLosses(tuple(_first_fall(curve, loss) for curve in losses), threshold)
    place = reached.index(lowest)
    at_lowest = replace(_first_fall(losses[place], lowest), log_step_error=0.0)
    points = [_first_fall(curve, lowest, at_lowest.loss.standard_error) for curve in losses]
    return MatchedLosses((*points[:place], at_lowest, *points[place + 1 :]), threshold)


def _first_fall(curve: StepCurve, loss: float, error: float = 0.0) -> MatchedCheckpoint:
    """The first step at which the curve, which starts at or above `loss`, with that error, reaches it."""
    places = list(zip(curve.steps, (estimate.value for estimate in curve.estimates), strict=True))
    if places[0][1] == loss:
        return MatchedCheckpoint(curve.run, places[0][0], curve.estimates[0])
    (step, above), (next_step, below) = next(pair for pair in pairwise(places) if pair[1][1] <= loss)
    length = math.log(next_step / step)
    share = (above - loss) / (above - below)
    found = next_step if share == 1 else min(next_step, step * math.exp(share * length))
    there = curve.at(found)
    return MatchedCheckpoint(
        curve.run,
        found,
        Estimate(loss, there.standard_error, there.n),
        math.hypot(there.standard_error, error) * length / (above - below),
    )


def _ranges(losses: Sequence[StepCurve]) -> str:
    of_runs = ((curve.run, [loss.value for loss in curve.estimates]) for curve in losses)
    return ", ".join(f"{run} {min(values):g} to {max(values):g}" for run, values in of_runs)
