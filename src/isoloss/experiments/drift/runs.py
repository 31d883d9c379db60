"""Plain SGD from common starts at several learning rates and batches, and with hardly any noise."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isoloss.errors import BadInput
from isoloss.experiments.descent_runs import OTHER_SENTENCES
from isoloss.experiments.drift.clock import Pace, mean_step
from isoloss.experiments.language_runs import AnyModel, AnyRuns, runs_of_sizes, width_of
from isoloss.experiments.planned_run import Continued, Labels, LanguagePlan, PlannedRun
from isoloss.experiments.quantities.exact_loss import ExactLossQuantity
from isoloss.experiments.quantities.trace_descent import TraceDescentQuantity
from isoloss.experiments.quantity import AnyQuantity, MeasuredAt
from isoloss.pretraining.sgd import SGD

PART, START, DRIFT, CONTROL = "drift", "start", "drift", "control"
"""The column that tells a run's part, and its values: where runs start, which drift, which have no noise."""


@dataclass(frozen=True)
class DriftRuns:
    """SGD from the last checkpoints of models of `widths`, without momentum, decay, warm-up or dropout.

    Every pace has its checkpoints at the same `times` τ. The control is the first of `paces`, its twin, with
    a batch `control_factor` times as large: as much descent in as many steps, with hardly any noise. Its
    checkpoints are at the first `control_checkpoints` of its twin's steps. `other_languages`, by name, are
    run beside the scale's. At the second time the fall of the trace that derivatives predict is measured on
    `rate_sentences` sentences, of the first pace from models of the first width (0: not at all). Raises
    BadInput for what cannot be compared.
    """

    widths: tuple[int, ...]
    paces: tuple[Pace, ...]
    times: tuple[float, ...]
    control_checkpoints: int
    control_factor: int = 32
    rate_sentences: int = 0
    other_languages: tuple[tuple[str, LanguagePlan], ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.paces)) < max(2, len(self.paces)):
            raise BadInput(
                "whether runs go by one clock takes at least two learning rates or batches, each once, not "
                f"{'; '.join(map(str, self.paces))}"
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
        """The first width and three paces, on the scale's language alone, without the prediction."""
        return replace(
            self, widths=self.widths[:1], paces=self.paces[:3], rate_sentences=0, other_languages=()
        )

    @property
    def control(self) -> Pace:
        """The pace of the control."""
        twin = self.paces[0]
        return Pace(twin.learning_rate, self.control_factor * twin.batch_size)

    def steps(self, pace: Pace) -> tuple[int, ...]:
        """The steps of the checkpoints of one of `paces`.

        Raises BadInput where the pace is so fast that two times are one step.
        """
        steps = tuple(pace.step_at(time) for time in self.times)
        if len(set(steps)) < len(steps):
            raise BadInput(
                f"{pace} is past two of the times {self.times} in one step; give it a smaller rate or a "
                "larger batch"
            )
        return steps

    @property
    def control_steps(self) -> tuple[int, ...]:
        """The steps of the control's checkpoints, which are its twin's first."""
        return self.steps(self.paces[0])[: self.control_checkpoints]


def drift_runs(
    drift: DriftRuns,
    runs: AnyRuns,
    seeds: Sequence[int],
    quantities: Sequence[AnyQuantity],
    raw_loss: ExactLossQuantity,
) -> tuple[PlannedRun, ...]:
    """The starts, which are the last checkpoints of `runs`, and SGD from each at every pace.

    `quantities` are measured of the averaged weights at every checkpoint, `raw_loss` of the weights as SGD
    has them. Raises BadInput where no model has one of the widths.
    """
    chosen = tuple(model for model in runs.architectures if width_of(model) in drift.widths)
    if len(chosen) < len(drift.widths):
        widths = ", ".join(str(width_of(model)) for model in runs.architectures)
        raise BadInput(f"the drift starts from models of widths {drift.widths}, and there are {widths}")
    at_start = tuple(MeasuredAt(quantity, (runs.steps,)) for quantity in quantities)
    origins = runs_of_sizes(replace(runs, architectures=chosen), seeds, at_start)
    starts = tuple(
        replace(origin, name=f"start-{origin.name}", labels=(*origin.labels, *_labels(START)))
        for origin in origins
    )
    models = [model for model in chosen for _ in seeds]
    drifting = [(DRIFT, pace, drift.steps(pace)) for pace in drift.paces]
    descents = tuple(
        replace(
            _descent(origin, model, *planned),
            measured=(
                *(MeasuredAt(quantity, planned[2]) for quantity in quantities),
                MeasuredAt(raw_loss, planned[2], weights="raw"),
                *_predicted(drift, origin, planned[1], raw_loss.seed),
            ),
        )
        for origin, model in zip(origins, models, strict=True)
        for planned in (*drifting, (CONTROL, drift.control, drift.control_steps))
    )
    return (*starts, *descents)


def _predicted(drift: DriftRuns, origin: PlannedRun, pace: Pace, seed: int) -> tuple[MeasuredAt, ...]:
    first = pace == drift.paces[0] and dict(origin.labels)["width"] == drift.widths[0]
    if not first or not drift.rate_sentences:
        return ()
    step = drift.steps(pace)[1]
    distance = pace.learning_rate * mean_step(step, pace.horizon)
    return (MeasuredAt(TraceDescentQuantity(drift.rate_sentences, distance, seed), (step,)),)


def _descent(
    origin: PlannedRun, model: AnyModel, part: str, pace: Pace, steps: tuple[int, ...]
) -> PlannedRun:
    return replace(
        origin,
        name=f"{part}-{pace.key}-{origin.name}",
        architecture=replace(model, dropout=0.0),
        update_rule=SGD(pace.learning_rate, warm_up_share=0.0),
        steps=steps[-1],
        batch_size=pace.batch_size,
        seed=origin.seed + OTHER_SENTENCES,
        checkpoint_steps=steps,
        saturated_from=steps[0],
        averaging_horizon=pace.horizon,
        measured=(),
        labels=(*origin.labels, *_labels(part, pace)),
        continues=Continued(origin, origin.steps),
    )


def _labels(part: str, pace: Pace | None = None) -> Labels:
    if pace is None:
        return ((PART, part), ("pace", START))
    name = f"control, {pace}" if part == CONTROL else str(pace)
    return (
        (PART, part),
        ("pace", name),
        ("learning_rate", pace.learning_rate),
        ("batch_size", pace.batch_size),
    )
