"""Plain SGD from common starts at several learning rates and batch sizes, and with hardly any noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from isoloss.errors import BadInput
from isoloss.experiments.grammar_runs import CONTROL, DRIFT, HEADLINE, Branch, of_language, starts
from isoloss.experiments.languages import LanguagePlan
from isoloss.experiments.planned_run import MeasuredAt, PlannedRun
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import FEWEST_AVERAGED, Clock, checkpoint_steps, mean_step
from isoloss.experiments.shared.language_runs import AnyRuns
from isoloss.languages.language import Language
from isoloss.measurements.derived_traces import StableRateQuantity, TraceDescentQuantity
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.quantity import Quantity, Subject
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.descent import SGD, GradientRule, plain_rule
from isoloss.pretraining.update_rule import Training
from isoloss.progress import silent

RATE = "learning_rate"
"""The reading under which checkpoints hold the rate that a run came to have."""

STABLE_RATE = StableRateQuantity(sentences=256, seed=20230706)
"""The unit of rates, measured on the same sentences for all models of a language. At half of 2 / λ the model
of a language that had hardly converged (KL 5 % of the entropy) left its minimum at every schedule with much
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


@dataclass(frozen=True)
class DriftRuns:
    """SGD from the last checkpoints of models of `widths`, without momentum, decay, warm-up or dropout.

    Every schedule of `schedules` has its checkpoints at the same `times`. The control is the first of them,
    its twin, with a batch `control_factor` times as large: equal descent in as many steps, with hardly any
    noise. Its checkpoints are at the first `control_checkpoints` of its twin's steps. At the second time, the
    fall of the trace predicted from derivatives is measured on `rate_sentences` sentences, for the first
    schedule from models of the first width (0: not at all). By the first three schedules alone go models of
    the first width on `other_languages`, by name. Raises BadInput if these cannot be compared.
    """

    widths: tuple[int, ...]
    schedules: tuple[Clock, ...]
    times: tuple[float, ...]
    control_checkpoints: int
    control_factor: int = 32
    rate_sentences: int = 0
    other_languages: tuple[tuple[str, LanguagePlan], ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.schedules)) < max(2, len(self.schedules)):
            raise BadInput(
                "whether runs go by one clock takes at least two learning rates or batches, each once, not "
                f"{'; '.join(map(str, self.schedules))}"
            )
        if list(self.times) != sorted({*self.times}) or len(self.times) < 2 or self.times[0] <= 0:
            raise BadInput(f"the times of the checkpoints must rise from above 0, two at least: {self.times}")
        if not 0 < self.control_checkpoints <= len(self.times) or self.control_factor < 2:
            raise BadInput(
                f"the control needs from 1 to {len(self.times)} checkpoints and a batch at least twice as "
                f"large, not {self.control_checkpoints} and {self.control_factor}"
            )

    @property
    def in_short(self) -> "DriftRuns":
        """The first width and three schedules, without the prediction or other languages."""
        return replace(
            self, widths=self.widths[:1], schedules=self.schedules[:3], rate_sentences=0, other_languages=()
        )

    @property
    def control(self) -> Clock:
        """The schedule of the control."""
        twin: Any = self.schedules[0]  # schedules are dataclasses, which their protocol cannot say
        slower: Clock = replace(twin, batch_size=self.control_factor * twin.batch_size)
        return slower

    def steps(self, schedule: Clock) -> tuple[int, ...]:
        """The steps of the checkpoints of one of `schedules`.

        Raises BadInput if the schedule is so fast that two times give the same step.
        """
        return checkpoint_steps(schedule, self.times)

    @property
    def control_steps(self) -> tuple[int, ...]:
        """The steps of the control's checkpoints, which are its twin's first."""
        return self.steps(self.schedules[0])[: self.control_checkpoints]


@dataclass(frozen=True)
class Measured:
    """What is measured `everywhere`, at the starts and at every checkpoint, and what less often.

    All of averaged weights, but for `raw_loss`, which is of SGD's own at every checkpoint.
    """

    everywhere: tuple[Quantity, ...]
    raw_loss: ExactLossQuantity
    at_the_ends: tuple[Quantity, ...] = ()
    at_the_starts: tuple[Quantity, ...] = ()


def drift_runs(
    drift: DriftRuns, runs: AnyRuns, seeds: Sequence[int], measured: Measured
) -> tuple[PlannedRun, ...]:
    """The starts, which are the last checkpoints of `runs`, and SGD from each at every schedule.

    Raises BadInput if no model has one of the widths.
    """
    at_a_start = (*measured.everywhere, *measured.at_the_ends, *measured.at_the_starts)
    origins = starts(runs, drift.widths, seeds, at_a_start)
    branches = (
        *(plain(schedule, drift.steps(schedule)) for schedule in drift.schedules),
        _control(drift.control, drift.control_steps),
    )
    descents = tuple(
        branch.run(
            start,
            (
                *(MeasuredAt(quantity, branch.steps) for quantity in measured.everywhere),
                *(MeasuredAt(quantity, branch.steps[-1:]) for quantity in measured.at_the_ends),
                MeasuredAt(measured.raw_loss, branch.steps, weights="raw"),
                *_predicted(drift, start.run, branch, measured.raw_loss.seed),
            ),
        )
        for start in origins
        for branch in branches
    )
    return (*(start.measured for start in origins), *descents)


def plain(schedule: Clock, steps: tuple[int, ...]) -> Branch:
    """The clock's own rule, such as SGD without momentum, decay, warm-up or dropout, as in the theorem."""
    return Branch(DRIFT, schedule, schedule.rule, steps, str(schedule), schedule.key)


def _control(schedule: Clock, steps: tuple[int, ...]) -> Branch:
    return replace(plain(schedule, steps), part=CONTROL, variant=f"control, {schedule}")


def _predicted(drift: DriftRuns, origin: PlannedRun, branch: Branch, seed: int) -> tuple[MeasuredAt, ...]:
    schedule = drift.schedules[0]
    first = branch.schedule == schedule and dict(origin.labels)["width"] == drift.widths[0]
    if not first or not drift.rate_sentences:
        return ()
    step = drift.steps(schedule)[1]
    distance = mean_step(step, schedule.horizon)
    return (MeasuredAt(TraceDescentQuantity(drift.rate_sentences, distance, seed, RATE), (step,)),)


def every_drift_run(scale: Scale, settings: DriftRuns, measured: Measured) -> tuple[PlannedRun, ...]:
    """The runs on the scale's grammar and on the settings' other languages; see `drift_runs`."""
    short = settings.in_short
    parts = (
        (HEADLINE, scale.grammar.language, settings),
        *((language, plan, short) for language, plan in settings.other_languages),
    )
    return tuple(
        of_language(run, language)
        for language, plan, drift in parts
        for run in drift_runs(drift, replace(scale.grammar, language=plan), scale.seeds, measured)
    )
