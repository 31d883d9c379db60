"""Runs that branch off common starts, and plain SGD at several learning rates and batches among them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from isoloss.errors import BadInput
from isoloss.experiments.languages import LanguagePlan
from isoloss.experiments.planned_run import Labels, MeasuredAt, PlannedRun, continued, measured_at
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import RATE, Clock, checkpoint_steps, mean_step
from isoloss.experiments.shared.language_runs import AnyRuns, runs_of_sizes, width_of
from isoloss.measurements.derived_traces import TraceDescentQuantity
from isoloss.measurements.quantity import Quantity
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.update_rule import UpdateRuleSettings

PART, START, DRIFT, CONTROL, VARIANT = "drift", "start", "drift", "control", "arm"
"""The column that tells a run's part, and its values: where runs start, which drift as the law has it, which
have no noise, and which differ in what the law says nothing of."""

HEADLINE = "grammar"
"""The name of the scale's grammar when there are several languages."""

VARIED = "varied"
"""The column with the setting in which a variant differs, such as its momentum."""


def starts(
    runs: AnyRuns, widths: Sequence[int], seeds: Sequence[int], quantities: Sequence[Quantity]
) -> tuple[PlannedRun, ...]:
    """Runs of models of these widths with each seed, from whose last checkpoints others continue.

    Measured there. Raises BadInput if no model has one of the widths.
    """
    chosen = tuple(model for model in runs.architectures if width_of(model) in widths)
    if len(chosen) < len(widths):
        known = ", ".join(str(width_of(model)) for model in runs.architectures)
        raise BadInput(f"the drift starts from models of widths {tuple(widths)}, and there are {known}")
    measured = measured_at((runs.steps,), *quantities)
    return runs_of_sizes(replace(runs, architectures=chosen), seeds, measured)


def as_start(run: PlannedRun) -> PlannedRun:
    """The run as a part of the experiment, beside those that continue it."""
    return replace(run, name=f"start-{run.name}", labels=(*run.labels, (PART, START), ("pace", START)))


@dataclass(frozen=True)
class Branch:
    """A continuation from every start: a rule with batches and steps, and the clock of its time.

    New sentences, masked words drawn as labels (also where the start had soft ones), no dropout by default,
    and weights averaged over the clock's horizon. `schedule` gives the clock and the batch; if the rule's
    rate is not the effective one, the clock's is. `variant` names it in words and `key` without spaces;
    `varied` is the setting in which it differs, if the law says nothing about that.
    """

    part: str
    schedule: Clock
    rule: UpdateRuleSettings
    steps: tuple[int, ...]
    variant: str
    key: str
    dropout: float = 0.0
    varied: str = ""

    def run(self, origin: PlannedRun, measured: tuple[MeasuredAt, ...]) -> PlannedRun:
        """The run from one start. All its checkpoints count for claims: the loss was already saturated."""
        model: Any = origin.architecture  # a dataclass, which its protocol cannot say
        labels: Labels = (
            (PART, self.part),
            ("pace", self.variant),
            ("learning_rate", self.schedule.learning_rate),
            ("batch_size", self.schedule.batch_size),
            *(((VARIED, self.varied),) if self.varied else ()),
        )
        return continued(
            origin,
            origin.steps,
            name=f"{self.part}-{self.key}-{origin.name}",
            architecture=replace(model, dropout=self.dropout),
            update_rule=self.rule,
            objective=MaskedObjective(),
            steps=self.steps[-1],
            batch_size=self.schedule.batch_size,
            checkpoint_steps=self.steps,
            saturated_from=self.steps[0],
            averaging_horizon=self.schedule.horizon,
            measured=measured,
            labels=(*origin.labels, *labels),
        )


@dataclass(frozen=True)
class Measured:
    """What is measured `everywhere`, at the starts and at every checkpoint, and what less often.

    All of averaged weights, but for `raw`, which are of the rule's own at every checkpoint of a branch.
    """

    everywhere: tuple[Quantity, ...]
    raw: tuple[Quantity, ...] = ()
    at_the_ends: tuple[Quantity, ...] = ()
    at_the_starts: tuple[Quantity, ...] = ()

    @property
    def at_a_start(self) -> tuple[Quantity, ...]:
        """All but what is of raw weights."""
        return (*self.everywhere, *self.at_the_ends, *self.at_the_starts)

    def along(self, steps: tuple[int, ...]) -> tuple[MeasuredAt, ...]:
        """What is measured along a branch with checkpoints at these steps."""
        return (
            *measured_at(steps, *self.everywhere),
            *measured_at(steps[-1:], *self.at_the_ends),
            *(MeasuredAt(quantity, steps, weights="raw") for quantity in self.raw),
        )


def branched_runs(
    runs: AnyRuns,
    widths: Sequence[int],
    seeds: Sequence[int],
    branches: Sequence[Branch],
    measured: Measured,
    language: str = HEADLINE,
) -> tuple[PlannedRun, ...]:
    """The starts, which are the last checkpoints of `runs`, and every branch of each, on one language.

    Raises BadInput if no model has one of the widths.
    """
    origins = starts(runs, widths, seeds, measured.at_a_start)
    on = [branch.run(origin, measured.along(branch.steps)) for origin in origins for branch in branches]
    return tuple(of_language(run, language) for run in (*map(as_start, origins), *on))


def of_language(run: PlannedRun, language: str) -> PlannedRun:
    """The run with the name of its language, which its name includes unless it is the headline's."""
    name = run.name if language == HEADLINE else f"{language.replace(' ', '-')}-{run.name}"
    return replace(run, name=name, labels=(("language", language), *run.labels))


def plain(schedule: Clock, steps: tuple[int, ...]) -> Branch:
    """The clock's own rule, such as SGD without momentum, decay, warm-up or dropout, as in the theorem."""
    return Branch(DRIFT, schedule, schedule.rule, steps, str(schedule), schedule.key)


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
        twin = self.schedules[0]
        return replace(twin, batch_size=self.control_factor * twin.batch_size)

    def steps(self, schedule: Clock) -> tuple[int, ...]:
        """The steps of the checkpoints of one of `schedules`.

        Raises BadInput if the schedule is so fast that two times give the same step.
        """
        return checkpoint_steps(schedule, self.times)

    @property
    def control_steps(self) -> tuple[int, ...]:
        """The steps of the control's checkpoints, which are its twin's first."""
        return self.steps(self.schedules[0])[: self.control_checkpoints]

    @property
    def branches(self) -> tuple[Branch, ...]:
        """SGD at every schedule, and the control."""
        control = replace(
            plain(self.control, self.control_steps), part=CONTROL, variant=f"control, {self.control}"
        )
        return (*(plain(schedule, self.steps(schedule)) for schedule in self.schedules), control)


def every_drift_run(scale: Scale, settings: DriftRuns, measured: Measured) -> tuple[PlannedRun, ...]:
    """The runs on the scale's grammar and on the settings' other languages.

    Raises BadInput if no model has one of the widths.
    """
    short = settings.in_short
    parts = (
        (HEADLINE, scale.grammar.language, settings),
        *((language, plan, short) for language, plan in settings.other_languages),
    )
    return tuple(
        _with_prediction(run, settings, scale.sizes.loss().seed)
        for language, plan, drift in parts
        for run in branched_runs(
            replace(scale.grammar, language=plan),
            drift.widths,
            scale.seeds,
            drift.branches,
            measured,
            language,
        )
    )


def _with_prediction(run: PlannedRun, drift: DriftRuns, seed: int) -> PlannedRun:
    """The run with the predicted fall of the trace, where it is one of which that is measured."""
    schedule, labels = drift.schedules[0], dict(run.labels)
    made_for = labels["language"], labels["width"], labels["pace"]
    if not drift.rate_sentences or made_for != (HEADLINE, drift.widths[0], str(schedule)):
        return run
    step = drift.steps(schedule)[1]
    distance = mean_step(step, schedule.horizon)
    predicted = TraceDescentQuantity(drift.rate_sentences, distance, seed, RATE)
    return replace(run, measured=(*run.measured, MeasuredAt(predicted, (step,))))
