"""Learning rates of SGD as shares of the largest that is stable where it starts, for all languages alike."""

from dataclasses import dataclass
from typing import ClassVar

from isoloss.errors import BadInput
from isoloss.experiments.schedules import FEWEST_AVERAGED, first_step, mean_step, rates_and_batches
from isoloss.languages.language import Language
from isoloss.measurements.derived_traces import StableRateQuantity
from isoloss.measurements.quantity import Subject
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.descent import GradientRule, plain_rule
from isoloss.pretraining.sgd import SGD
from isoloss.pretraining.update_rule import Training
from isoloss.progress import silent

RATE = "learning_rate"
"""The reading under which checkpoints hold the rate that a run came to have."""

STABLE_RATE = StableRateQuantity(sentences=256, seed=20230706)
"""The unit of rates, measured on the same sentences for all models of a language. At half of 2 / λ the model
of a language that had hardly converged (KL 5 % of the entropy) left its minimum at every pace with much
noise, its loss rising by up to 3.7 %; by this rule that of none of ten languages rose by more than 0.3 %."""

RETURNS_AVERAGED = 128


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
        """See `UpdateRuleSettings.build`."""
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
    """A learning rate as a share r of the stable one η*, and a batch of B sentences: a `Clock` for SGD.

    Its time is r² k̄ / B, with k̄ the mean of the averaged steps: that is 4τ / η*², where τ = η²k̄ / 4B is
    Theorem 3.3's. Runs from one start at equal times are so at equal τ. Raises BadInput unless both are
    positive.
    """

    learning_rate: float
    batch_size: int
    averaged: ClassVar[int] = RETURNS_AVERAGED

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

    def step_at(self, time: float) -> int:
        """The first step whose averaged weights have that time.

        >>> RelativeSchedule(1.0, 64).step_at(6.0), RelativeSchedule(0.25, 16).step_at(6.0)
        (568, 2034)
        """
        return first_step(self, time, 2 * self.horizon + round(time / self.time_per_step))


def relative_schedules(text: str) -> tuple[RelativeSchedule, ...]:
    """Shares of the stable rate and batches in the notation of the command line.

    Raises BadInput for any other text.

    >>> [str(schedule) for schedule in relative_schedules("0.5:64,0.25:32")]
    ['η 0.5 η*, B 64', 'η 0.25 η*, B 32']
    """
    return tuple(RelativeSchedule(*numbers) for numbers in rates_and_batches(text))
