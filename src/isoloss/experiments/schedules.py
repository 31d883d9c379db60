"""The time of drifts to flatter minima: SGD's (Theorem 3.3), by its stable rate too, and AdamW's."""

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.measurements.derived_traces import StableRateQuantity
from isoloss.measurements.quantity import Subject
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.descent import SGD, AdamW, GradientRule, plain_rule
from isoloss.pretraining.update_rule import Training
from isoloss.progress import silent

FEWEST_AVERAGED = 200
RETURNS_AVERAGED = 40
SECOND_MOMENT_STEPS = 100


@dataclass(frozen=True)
class Schedule:
    """A learning rate η and a batch of B sentences: the speed at which plain SGD drifts.

    Raises BadInput unless both are positive.
    """

    learning_rate: float
    batch_size: int

    def __post_init__(self) -> None:
        squared = self.learning_rate * self.learning_rate  # attributes on which the time of a step depends
        if not (self.learning_rate > 0 and 0 < squared < math.inf) or self.batch_size < 1:
            raise BadInput(
                f"SGD needs a learning rate above 0 and a batch of at least 1, not {self.learning_rate} and "
                f"{self.batch_size}"
            )

    def __str__(self) -> str:
        """In words.

        >>> str(Schedule(0.4, 1024))
        'η 0.4, B 1,024'
        """
        return f"η {self.learning_rate:g}, B {self.batch_size:,}"

    @property
    def key(self) -> str:
        """A name without spaces.

        >>> Schedule(0.4, 128).key
        'rate-0.4-batch-128'
        """
        return f"rate-{self.learning_rate:g}-batch-{self.batch_size}"

    @property
    def rule(self) -> SGD:
        """SGD as in the theorem: no momentum, decay or warm-up."""
        return SGD(self.learning_rate, warm_up_share=0.0)

    @property
    def time_per_step(self) -> float:
        """η² / 4B: with it, Theorem 3.3's dθ/dt = -(1/4B) ∇_Γ Tr ∇²L, t = kη², is dθ/dτ = -∇_Γ Tr ∇²L."""
        return self.learning_rate**2 / (4 * self.batch_size)

    @property
    def horizon(self) -> int:
        """The number of steps over which weights are averaged: 40 / η, and at least 200.

        Along a direction of curvature λ, SGD returns to Γ within 1 / ηλ steps, so that noise averages out
        along all directions with λ above 1/40.

        >>> Schedule(0.4, 128).horizon, Schedule(0.1, 128).horizon
        (200, 400)
        """
        return max(FEWEST_AVERAGED, math.ceil(RETURNS_AVERAGED / self.learning_rate))

    def time(self, step: int) -> float:
        """τ = η² k̄ / 4B of the averaged weights of step k, with k̄ the mean of the averaged steps."""
        return self.time_per_step * mean_step(step, self.horizon)


@dataclass(frozen=True)
class AdamWSchedule:
    """A learning rate α and a batch of B sentences: the speed at which Adam drifts, α²k / 4 whatever B is.

    If gradients are noise of covariance H / B, Adam's preconditioner is D = √(B / H_ii) along parameter i,
    and its noise has covariance α²I per step. Close to a minimum, the deviations of θ then have variance α /
    2√(B H_ii), which adds (α / 4B) Tr(D H) = (α / 4√B) Σ_i √H_ii to the loss; and the descent αD of the
    former along the minima, with D held fixed, is dθ_i/dt = -2 H_ii^(-1/2) ∂_i Σ_j √H_jj with t = α²k / 4, in
    which B has cancelled.

    The second moment is known only after some steps, so the rate rises over the first `SECOND_MOMENT_STEPS`,
    and t sums the squares of the actual rates. Raises BadInput unless rate and batch are positive.
    """

    learning_rate: float
    batch_size: int

    def __post_init__(self) -> None:
        Schedule(self.learning_rate, self.batch_size)

    def __str__(self) -> str:
        """In words.

        >>> str(AdamWSchedule(4e-3, 1024))
        'α 0.004, B 1,024'
        """
        return f"α {self.learning_rate:g}, B {self.batch_size:,}"

    @property
    def key(self) -> str:
        """A name without spaces."""
        return Schedule(self.learning_rate, self.batch_size).key

    @property
    def rule(self) -> AdamW:
        """AdamW without decay, its rate rising until the second moment is known."""
        return AdamW(self.learning_rate, SECOND_MOMENT_STEPS, weight_decay=0.0)

    @property
    def time_per_step(self) -> float:
        """α² / 4."""
        return self.learning_rate**2 / 4

    @property
    def horizon(self) -> int:
        """The number of steps over which weights are averaged."""
        return FEWEST_AVERAGED

    def time(self, step: int) -> float:
        """t = Σ α_r² / 4 of the averaged weights of that step: the mean of the times in their average.

        At a constant rate, the average lags h - 1 steps behind, where h is the horizon; any other
        contribution of the first h steps falls by a factor 1 - 1/h per step.
        """
        squares = [min(1.0, r / SECOND_MOMENT_STEPS) ** 2 for r in range(1, self.horizon + 1)]
        passed = list(accumulate(squares))
        if step <= self.horizon:
            return self.time_per_step * sum(passed[:step]) / step
        behind = passed[-1] - (self.horizon - 1)
        beside = sum(passed) / self.horizon - behind
        left = beside * (1 - 1 / self.horizon) ** (step - self.horizon)
        return self.time_per_step * (behind + step - self.horizon + left)


RATE = "learning_rate"
"""The reading under which checkpoints hold the rate that a run came to have."""

STABLE_RATE = StableRateQuantity(sentences=256, seed=20230706)
"""The unit of rates, measured on the same sentences for all models of a language; docs/pilots.md has why."""


@dataclass(frozen=True)
class RelativeSGD:
    """Plain SGD at `share` of the `stable` rate of the weights from which the run starts.

    That is measured before its first step, so that a plan need not know it: models of any language, and of
    any seed, take equally long steps beside their own curvature. Readings: the rate. Raises BadInput unless
    `share` is above 0, and where no rate is stable.
    """

    share: float
    stable: StableRateQuantity = STABLE_RATE

    def __post_init__(self) -> None:
        _ = self.optimiser  # refuses what is no rate

    @property
    def optimiser(self) -> SGD:
        """A step of the same cost."""
        return self._at(1.0)

    def build(self, training: Training) -> GradientRule:
        language, objective = training.language, MaskedObjective()
        if not isinstance(language, Language):
            raise BadInput("a relative rate needs exact distributions of words; train on a language of ours")
        subject: Subject[Language] = Subject("", objective, {}, language, seed=training.seed)
        drawn = self.stable.draw(language, objective, silent)
        rule = self._at(self.stable.measure(training.model, drawn, subject, silent).records[0].value)
        return plain_rule(training, rule.descent(training), {RATE: rule.learning_rate})

    def _at(self, stable: float) -> SGD:
        return SGD(self.share * stable, warm_up_share=0.0)


@dataclass(frozen=True)
class RelativeSchedule:
    """SGD's learning rate as a share r of the stable one η*, and a batch of B sentences.

    Its time is r² k̄ / B, with k̄ the mean of the averaged steps: that is 4τ / η*², where τ = η²k̄ / 4B is
    Theorem 3.3's. Runs from one start at equal times are so at equal τ. Raises BadInput unless both are
    positive.
    """

    learning_rate: float
    batch_size: int
    averaged: ClassVar[int] = 128

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise BadInput(f"SGD needs a batch of at least 1, not {self.batch_size}")
        _ = self.rule

    def __str__(self) -> str:
        """In words.

        >>> str(RelativeSchedule(0.25, 1024))
        'η 0.25 η*, B 1,024'
        """
        return f"η {self.learning_rate:g} η*, B {self.batch_size:,}"

    @property
    def key(self) -> str:
        """A name without spaces.

        >>> RelativeSchedule(0.25, 128).key
        'share-0.25-batch-128'
        """
        return f"share-{self.learning_rate:g}-batch-{self.batch_size}"

    @property
    def rule(self) -> RelativeSGD:
        """SGD at this rate."""
        return RelativeSGD(self.learning_rate)

    @property
    def time_per_step(self) -> float:
        """r² / B."""
        return self.learning_rate**2 / self.batch_size

    @property
    def horizon(self) -> int:
        """The number of steps over which weights are averaged: 128 / r, and at least 200.

        Along a direction of curvature λ, SGD returns to Γ within 1 / rη*λ steps, so that noise averages out
        along all directions with λη* above 1/128.

        >>> RelativeSchedule(1.0, 128).horizon, RelativeSchedule(0.25, 128).horizon
        (200, 512)
        """
        return max(FEWEST_AVERAGED, round(self.averaged / self.learning_rate))

    def time(self, step: int) -> float:
        """Of the averaged weights of that step."""
        return self.time_per_step * mean_step(step, self.horizon)


Clock = Schedule | AdamWSchedule | RelativeSchedule
"""A learning rate and a batch size, and the time of a number of steps with them."""


def checkpoint_steps(schedule: Clock, times: tuple[float, ...]) -> tuple[int, ...]:
    """The steps at which it has these times. Raises BadInput if two times give the same step.

    >>> checkpoint_steps(Schedule(0.4, 128), (0.1, 0.2))
    (497, 835)
    """
    steps = tuple(first_step(schedule, time) for time in times)
    if len(set(steps)) < len(steps):
        raise BadInput(
            f"{schedule} is past two of the times {times} in one step; give it a smaller rate or a larger "
            "batch"
        )
    return steps


def first_step(clock: Clock, time: float) -> int:
    """The first step whose averaged weights have that time.

    >>> first_step(AdamWSchedule(4e-3, 32), 1e-3), first_step(AdamWSchedule(8e-3, 512), 1e-3)
    (489, 234)
    """
    # An average is fewer than two horizons behind.
    first, last = 0, 2 * clock.horizon + math.ceil(time / clock.time_per_step)
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (first, middle) if clock.time(middle) >= time else (middle, last)
    return last


def mean_step(step: int, horizon: int) -> float:
    """The weighted mean of the steps that `WeightAverage` has taken in by `step`.

    Until `horizon` h it is the plain mean, (k + 1) / 2. From then on k̄ ← k̄ + (k - k̄) / h, so that its lag
    is k - k̄ = (h - 1) (1 - ½ (1 - 1/h)^(k - h)), which tends to h - 1.

    >>> mean_step(1, 200), mean_step(200, 200), round(10_000 - mean_step(10_000, 200), 6)
    (1.0, 100.5, 199.0)
    """
    if step <= horizon:
        return (step + 1) / 2
    return step - (horizon - 1) * (1 - 0.5 * (1 - 1 / horizon) ** (step - horizon))
