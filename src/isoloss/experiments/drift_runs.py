"""Plain SGD from common starts at several learning rates and batch sizes, and with hardly any noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isoloss.errors import BadInput
from isoloss.experiments.grammar_runs import CONTROL, DRIFT, HEADLINE, Branch, as_start, of_language, starts
from isoloss.experiments.languages import LanguagePlan
from isoloss.experiments.planned_run import MeasuredAt, PlannedRun
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import RATE, Clock, checkpoint_steps, mean_step
from isoloss.experiments.shared.language_runs import AnyRuns
from isoloss.measurements.derived_traces import TraceDescentQuantity
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.quantity import Quantity


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
            origin,
            (
                *(MeasuredAt(quantity, branch.steps) for quantity in measured.everywhere),
                *(MeasuredAt(quantity, branch.steps[-1:]) for quantity in measured.at_the_ends),
                MeasuredAt(measured.raw_loss, branch.steps, weights="raw"),
                *_predicted(drift, origin, branch, measured.raw_loss.seed),
            ),
        )
        for origin in origins
        for branch in branches
    )
    return (*map(as_start, origins), *descents)


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
