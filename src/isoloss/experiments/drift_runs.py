"""Plain SGD from common starts at several learning rates and batch sizes, and with hardly any noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from isoloss.errors import BadInput
from isoloss.experiments.branches import CONTROL, DRIFT, HEADLINE, Branch, of_language, starts
from isoloss.experiments.chosen_languages import second_grammar, third_grammar
from isoloss.experiments.measured_at import MeasuredAt
from isoloss.experiments.planned_run import LanguagePlan, PlannedRun, ReadyLanguage
from isoloss.experiments.relative_rates import RATE, RelativeSchedule
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import Pace, checkpoint_steps, mean_step
from isoloss.experiments.shared.language_runs import AnyRuns, ScaleName
from isoloss.measurements.derived_traces import TraceDescentQuantity
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.quantity import AnyQuantity


@dataclass(frozen=True)
class DriftRuns:
    """SGD from the last checkpoints of models of `widths`, without momentum, decay, warm-up or dropout.

    Every pace of `schedules` has its checkpoints at the same `times`. The control is the first of them, its
    twin, with a batch `control_factor` times as large: equal descent in as many steps, with hardly any noise.
    Its checkpoints are at the first `control_checkpoints` of its twin's steps. At the second time, the fall
    of the trace predicted from derivatives is measured on `rate_sentences` sentences, for the first pace from
    models of the first width (0: not at all). By the first three paces alone go models of the first width on
    `other_languages`, by name. `own_seeds` replace the scale's. Raises BadInput if these cannot be compared.
    """

    widths: tuple[int, ...]
    schedules: tuple[Pace, ...]
    times: tuple[float, ...]
    control_checkpoints: int
    control_factor: int = 32
    rate_sentences: int = 0
    other_languages: tuple[tuple[str, LanguagePlan], ...] = ()
    own_seeds: tuple[int, ...] | None = None

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
        """The first width and three paces, without the prediction or other languages."""
        return replace(
            self,
            widths=self.widths[:1],
            schedules=self.schedules[:3],
            rate_sentences=0,
            other_languages=(),
        )

    @property
    def control(self) -> Pace:
        """The pace of the control."""
        twin: Any = self.schedules[0]  # paces are dataclasses, which their protocol cannot say
        slower: Pace = replace(twin, batch_size=self.control_factor * twin.batch_size)
        return slower

    def steps(self, schedule: Pace) -> tuple[int, ...]:
        """The steps of the checkpoints of one of `schedules`.

        Raises BadInput if the pace is so fast that two times give the same step.
        """
        return checkpoint_steps(schedule, self.times)

    @property
    def control_steps(self) -> tuple[int, ...]:
        """The steps of the control's checkpoints, which are its twin's first."""
        return self.steps(self.schedules[0])[: self.control_checkpoints]


SMOKE = DriftRuns(
    widths=(16,),
    schedules=(RelativeSchedule(1.0, 8), RelativeSchedule(0.5, 8)),
    times=(0.2, 0.4, 0.8),
    control_checkpoints=2,
    rate_sentences=8,
)

HOT, COLD = 64, 192
"""B / r of the two kinds of pace, r being the share of the stable rate: noise adds to the loss as r / B."""

SIX = tuple(
    RelativeSchedule(share, round(share * ratio)) for ratio in (HOT, COLD) for share in (1.0, 0.5, 0.25)
)
"""Three rates, each with two batches: so that the exponents of η at one η / B, and of B at one η, are
independent. η²/B differ twelvefold."""

LAPTOP = DriftRuns(
    widths=(32,),
    own_seeds=tuple(range(651, 657)),
    schedules=SIX,
    times=(0.3, 1.0, 2.5, 6.0, 16.0),
    control_checkpoints=3,
    control_factor=16,
    rate_sentences=320,
)
"""The last time is τ = 0.3 on the grammar, by when the trace has halved in pilot runs. To one time, a pace
takes as many sentences as (B / r)²: those with little noise take most. The rates of earlier rounds, 0.05 to
0.4 for any language, were above 2 / λ on other grammars, and runs left their minima; here pilot runs with
seeds 900 to 902 stayed within 0.2 % of the loss at the start. Hence other seeds, and medians over them in
claims."""

NIGHT = replace(
    LAPTOP,
    own_seeds=tuple(range(751, 771)),
    times=(*LAPTOP.times, 40.0),
    rate_sentences=1000,
    other_languages=(
        ("second grammar", ReadyLanguage(second_grammar())),
        ("third grammar", ReadyLanguage(third_grammar())),
    ),
)
"""Three languages, the others by the paces with much noise alone, and for two and a half times as long. Of
earlier rounds, runs from width 16 left their minima, and with seeds 251 to 260 one of three paces on the
second grammar did so for a while, which left the claims on one clock and one loss open: they were about means
over seeds."""

PAPER = replace(
    LAPTOP,
    widths=(512, 1024),
    own_seeds=None,
    schedules=tuple(replace(schedule, batch_size=8 * schedule.batch_size) for schedule in SIX),
    rate_sentences=1000,
)
"""The paper's rate and batch (B.2: 1e-3 and 4,096) reach τ = 7e-6 in its 120,000 steps. No pilot has been run
at this scale."""

DRIFT_RUNS: dict[ScaleName, DriftRuns] = {
    "smoke": SMOKE,
    "laptop": LAPTOP,
    "night": NIGHT,
    "gpu": replace(PAPER, widths=(128, 192)),
    "paper": PAPER,
}


@dataclass(frozen=True)
class Measured:
    """What is measured `everywhere`, at the starts and at every checkpoint, and what less often.

    All of averaged weights, but for `raw_loss`, which is of SGD's own at every checkpoint.
    """

    everywhere: tuple[AnyQuantity, ...]
    raw_loss: ExactLossQuantity
    at_the_ends: tuple[AnyQuantity, ...] = ()
    at_the_starts: tuple[AnyQuantity, ...] = ()


def drift_runs(
    drift: DriftRuns,
    runs: AnyRuns,
    seeds: Sequence[int],
    measured: Measured,
) -> tuple[PlannedRun, ...]:
    """The starts, which are the last checkpoints of `runs`, and SGD from each at every pace.

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


def plain(schedule: Pace, steps: tuple[int, ...]) -> Branch:
    """SGD as in the theorem: no momentum, decay, warm-up or dropout."""
    return Branch(DRIFT, schedule, schedule.rule, steps, str(schedule), schedule.key)


def _control(schedule: Pace, steps: tuple[int, ...]) -> Branch:
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
        for run in drift_runs(
            drift,
            replace(scale.grammar, language=plan),
            settings.own_seeds or scale.seeds,
            measured,
        )
    )
