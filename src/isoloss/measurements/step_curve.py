"""One quantity of one run, over the steps at which it was measured."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from isoloss.errors import BadInput
from isoloss.estimate import Estimate
from isoloss.measurements.record import Record


@dataclass(frozen=True)
class StepCurve:
    """`estimates[i]` was measured at `steps[i]`, which rise; in between linear in the step's logarithm.

    Raises BadInput for no steps, steps that do not rise from at least 1, or numbers that are not finite.
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
        """The value at `step`, which lies between the first and the last step measured.

        Its error is the interpolation's, w_1 e_1 + w_2 e_2, which holds however the two neighbours' errors
        hang together (on one evaluation set they nearly are one), and in quadrature with it the slope times
        `log_step_error`, the standard error of the step's logarithm. Raises BadInput outside the steps.

        >>> curve = StepCurve("a", (100, 400), (Estimate(2.0, 0.1, 50), Estimate(1.0, 0.3, 50)))
        >>> curve.at(200)
        Estimate(value=1.5, standard_error=0.2, n=50)
        """
        if not self.steps[0] <= step <= self.steps[-1]:
            raise BadInput(
                f"step {step:g} of the run {self.run} lies outside its steps {self.steps[0]} to "
                f"{self.steps[-1]}; nothing is known there"
            )
        if len(self.steps) == 1:
            return self.estimates[0]
        place = min(bisect_right(self.steps, step), len(self.steps) - 1) - 1
        before, after = self.estimates[place], self.estimates[place + 1]
        length = math.log(self.steps[place + 1] / self.steps[place])
        share = math.log(step / self.steps[place]) / length
        moved = log_step_error * (after.value - before.value) / length if log_step_error else 0.0
        own = (1 - share) * before.standard_error + share * after.standard_error
        value = (1 - share) * before.value + share * after.value
        return Estimate(value, math.hypot(own, moved), min(before.n, after.n))


def step_curves(records: Sequence[Record], quantity: str) -> list[StepCurve]:
    """The curves of a quantity, one for each `run` of the records' settings, by their `step`.

    Raises BadInput where there is no such record, one without run, step or error, or two of one step.
    """
    by_run: dict[str, dict[int, Estimate]] = {}
    for record in records:
        if record.quantity != quantity:
            continue
        run, step, error = record.settings.get("run"), record.settings.get("step"), record.standard_error
        if not isinstance(run, str) or not isinstance(step, int) or error is None:
            raise BadInput(f"a record of {quantity} has no run, step or standard error: {record.settings}")
        by_step = by_run.setdefault(run, {})
        if step in by_step:
            raise BadInput(
                f"the run {run} has two records of {quantity} at step {step}; hand over those of one "
                "evaluation set"
            )
        by_step[step] = Estimate(record.value, error, record.n)
    if not by_run:
        raise BadInput(f"there is no record of {quantity}; measure it, or name a quantity that was measured")
    return [
        StepCurve(run, tuple(sorted(by_step)), tuple(by_step[step] for step in sorted(by_step)))
        for run, by_step in by_run.items()
    ]
