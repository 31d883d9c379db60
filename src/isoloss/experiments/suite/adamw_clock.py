"""AdamW's own clock, α²k / 4 without the batch size, and the quantity that descends in its time."""

from dataclasses import dataclass, replace
from functools import partial
from itertools import starmap

import polars as pl

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.drift_panels import LOSS, MEAN, RAW_LOSS, TRACE, over_seeds, with_beginning
from isoloss.experiments.drift_runs import DRIFT, PART, START, Branch, Measured, branched_runs, plain
from isoloss.experiments.drift_statistics import (
    adamw_excess_loss,
    change_of_loss,
    distance_between_schedules,
    halvings_of_trace,
    lag_of_larger_batches,
    root_before_trace,
)
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import AdamWSchedule, Schedule, checkpoint_steps, first_step
from isoloss.experiments.shared.claims import premise_of_loss
from isoloss.experiments.shared.language_runs import at_scales, rounds_at, seeds_at
from isoloss.experiments.suite.drift_limits import changed, limit_panels
from isoloss.measurements.on_sentences.gradients import RootFisherQuantity
from isoloss.panels import Axis, Colour, Lines, Panel, Table
from isoloss.results.verdict import above, below, within

SGD_PART = "sgd"
"""The part of a run of plain SGD from the same start, for comparison."""

NOBODY = "none: the paper's theorem is about SGD"
TIME = Axis("time", "time of AdamW's drift, α²k / 4", logarithmic=True)
SGD_TIME = Axis("time_over_batch", "by SGD's clock, α²k / 4B", logarithmic=True)
ROOT = Axis("root_fisher", "Σ √H_ii (Fisher form)", "root_fisher_error", logarithmic=True)
BY_SCHEDULE = Colour("pace", "AdamW's α and B")


CLAIMS = (
    premise_of_loss(
        "loss-stands",
        sentence="The loss does not change along AdamW.",
        paper=NOBODY,
        measure="largest change of a schedule's mean exact loss since the start, over the loss at the start",
        bound=0.005,
        statistic=change_of_loss,
        reason="as for SGD, in drift",
    ),
    Claim(
        name="root-falls",
        sentence="Σ √H_ii falls along AdamW.",
        paper=NOBODY,
        measure="mean over schedules of log2(Σ √H_ii at the start / at the last checkpoint)",
        unit="halvings of Σ √H_ii",
        claimed=above(0.0),
        statistic=partial(halvings_of_trace, of="root_fisher", clock=AdamWSchedule),
    ),
    Claim(
        name="one-clock",
        sentence="Runs of all learning rates and batches lie on one curve over t = α²k / 4.",
        paper=NOBODY,
        measure=(
            "largest distance between two schedules' mean log2 trace at one t, over the mean fall at the "
            "last t"
        ),
        unit="of the trace's fall apart",
        claimed=below(0.4),
        statistic=partial(distance_between_schedules, clock=AdamWSchedule),
        reason="if the clock had a factor of 1/B, schedules would be apart by about the whole fall",
    ),
    Claim(
        name="batch-does-not-matter",
        sentence="At a given learning rate and step, how far AdamW has drifted is independent of batch size.",
        paper=NOBODY,
        measure=(
            "mean log2 of the steps that the larger batch takes to a trace over those of the smaller, for "
            "each doubling of the batch; pairs of schedules of equal learning rate"
        ),
        unit="doublings of steps per doubling of the batch",
        claimed=within(0.5),
        statistic=partial(lag_of_larger_batches, clock=AdamWSchedule),
        reason="half of what SGD's clock would give, 1",
    ),
    Claim(
        name="root-before-trace",
        sentence="Relative to the trace, Σ √H_ii falls further along AdamW than along SGD.",
        paper=NOBODY,
        measure=(
            "halvings of (Σ √H_ii)² minus those of the trace, from start to last checkpoint: AdamW's, the "
            "mean over schedules, minus SGD's"
        ),
        unit="halvings",
        claimed=above(0.1),
        statistic=partial(root_before_trace, part=DRIFT, beside=SGD_PART),
        reason="a quarter of the trace's own fall; it would be 0 if both descended the same quantity",
    ),
    Claim(
        name="excess-loss",
        sentence="What AdamW's noise adds to the loss is α Σ √H_ii / 4√B, to within a factor of two.",
        paper=NOBODY,
        measure=(
            "log2 of (loss of raw weights - of averaged ones) over α Σ √H_ii / 4√B, sums over checkpoints"
        ),
        unit="doublings from the prediction",
        claimed=within(1.0),
        statistic=adamw_excess_loss,
        reason="a factor of two, since the theory takes H as diagonal and the second moment as pure noise",
    ),
)
"""The bounds were fixed on runs with pilot seeds."""


@dataclass(frozen=True)
class AdamWClockRuns:
    """AdamW without weight decay, from the last checkpoints of the model of one `width`.

    Every schedule has its checkpoints at the same `times` t = α²k / 4. One of the schedules is modified in
    one respect at a time to see where the clock fails, on the first `variant_seeds` of the seeds. `sgd` runs
    beside them up to `sgd_time`.
    """

    width: int
    schedules: tuple[AdamWSchedule, ...]
    times: tuple[float, ...]
    changed: AdamWSchedule
    sgd: Schedule
    sgd_time: float
    variant_seeds: int = 3

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The schedules, and SGD."""
        sgd = plain(self.sgd, (first_step(self.sgd, self.sgd_time),))
        named = replace(sgd, part=SGD_PART, variant=f"SGD, {self.sgd}")
        return (*(plain(each, checkpoint_steps(each, self.times)) for each in self.schedules), named)

    @property
    def variants(self) -> tuple[Branch, ...]:
        """What the derivation ignores: how long the second moment remembers, ε, and decay."""
        rule, of = self.changed.rule, partial(changed, self.times, self.changed)
        return (
            of("second moment", "beta 0.9", rule=replace(rule, second_beta=0.9)),
            of("second moment", "beta 0.999", rule=replace(rule, second_beta=0.999)),
            of("epsilon", "ε 0.001", rule=replace(rule, epsilon=1e-3)),
            of("weight decay", "λ 0.1", rule=replace(rule, weight_decay=0.1)),
        )


def adamw_panels(table: pl.DataFrame) -> tuple[Panel, ...]:
    """One curve over AdamW's time, several over SGD's; what descends; and where the clock fails."""
    means = over_seeds(table, AdamWSchedule).with_columns(
        time_over_batch=pl.col("time") / pl.col("batch_size")
    )
    started, both = (
        means.filter(pl.col(PART).is_in(parts)) for parts in ([START, DRIFT], [START, DRIFT, SGD_PART])
    )
    return (
        Panel(
            "clock",
            "Is there a single clock, independent of the batch?",
            "Trace and Σ √H_ii against t = α²k̄ / 4, where k̄ is the mean step of the averaged weights; the "
            f"dashed line is the start. {MEAN.bars}",
            tuple(
                Lines(TIME, axis, BY_SCHEDULE, "pace", predicted="beginning", dashed=START)
                for axis in (TRACE, ROOT)
            ),
            with_beginning(started),
            "stacked",
            ("one-clock", "batch-does-not-matter"),
        ),
        Panel(
            "by-the-clock-of-sgd",
            "Or is it SGD's clock?",
            f"If AdamW drifted as SGD does, all runs would lie on one curve here. {MEAN.bars}",
            (
                Lines(SGD_TIME, TRACE, BY_SCHEDULE, "pace"),
                Table((Axis("pace", "pace"), Axis("seeds", "seeds"), TIME, TRACE, ROOT, LOSS, RAW_LOSS)),
            ),
            means.filter(pl.col(PART) == DRIFT),
        ),
        Panel(
            "what-descends",
            "What decreases?",
            f"Σ √H_ii against the trace as both fall from the start, along AdamW and along SGD. {MEAN.bars}",
            (Lines(TRACE, ROOT, BY_SCHEDULE, "pace"),),
            both,
        ),
        *limit_panels(table, AdamWSchedule, TIME),
    )


SMOKE = AdamWClockRuns(
    width=16,
    schedules=(AdamWSchedule(4e-3, 8), AdamWSchedule(4e-3, 16)),
    times=(4e-5, 8e-5),
    changed=AdamWSchedule(4e-3, 8),
    sgd=Schedule(0.4, 8),
    sgd_time=0.02,
    variant_seeds=1,
)

LAPTOP = AdamWClockRuns(
    width=32,
    schedules=tuple(starmap(AdamWSchedule, ((1e-3, 32), (2e-3, 128), (4e-3, 512), (4e-3, 1024)))),
    times=(1e-3, 2e-3, 4e-3),
    changed=AdamWSchedule(4e-3, 512),
    sgd=Schedule(0.2, 32),
    sgd_time=0.05,
    variant_seeds=2,
)
"""Batches thirty-twofold and α² sixteenfold apart, and SGD for the same fall of the trace; docs/pilots.md."""

NIGHT = replace(LAPTOP, times=(*LAPTOP.times, 8e-3), sgd_time=0.1, variant_seeds=3)
"""Twice as long."""

PAPER = AdamWClockRuns(
    width=512,
    schedules=tuple(starmap(AdamWSchedule, ((1e-3, 256), (1e-3, 1024), (2e-3, 1024), (2e-3, 4096)))),
    times=(1e-3, 2e-3, 4e-3),
    changed=AdamWSchedule(2e-3, 1024),
    sgd=Schedule(0.2, 256),
    sgd_time=0.05,
)
"""No pilot has been run at this scale."""

AT = at_scales(SMOKE, LAPTOP, NIGHT, replace(PAPER, width=128), PAPER)


def adamw_clock(scale: Scale, settings: AdamWClockRuns) -> Experiment:
    """AdamW's clock: schedules from common starts, SGD beside them, and settings that the clock ignores."""
    sizes = scale.sizes
    root = RootFisherQuantity(sizes.trace_sentences, sizes.seed + 2)
    measured = Measured((sizes.loss(), sizes.trace(), root))
    grammar, width = scale.grammar, (settings.width,)
    few = scale.seeds[: settings.variant_seeds]
    with_raw = replace(measured, raw=(sizes.loss(),))
    started = branched_runs(grammar, width, scale.seeds, settings.branches, with_raw)
    return Experiment(
        name="adamw-clock",
        question=Question.THEORY,
        title="Does AdamW drift by a clock of its own, without the batch?",
        text=(
            "The clock of Theorem 3.3 is SGD's: τ = η²k / 4B. Where gradient noise has covariance H / B and "
            "AdamW divides by its square root, the same argument gives a different clock, t = α²k / 4, "
            "whatever the batch size; along it Σ_i √H_ii decreases, not the trace. Runs that differ in α, B "
            "and the number of steps k must therefore lie on one curve over t, and at the same α and k the "
            "batch size must not matter.",
            "From each of AdamW's last checkpoints, AdamW continues without weight decay, at other learning "
            "rates and batch sizes; the learning rate warms up over the first hundred steps. Trace, Σ √H_ii "
            "and loss are those of weights averaged over the last 200 steps, and the time is averaged in the "
            "same way. Σ √H_ii is computed from the exact diagonal of the Fisher information. SGD continues "
            "from the same starts for comparison.",
        ),
        runs=(*started, *branched_runs(grammar, width, few, settings.variants, measured)[len(few) :]),
        claims=CLAIMS,
        panels=adamw_panels,
    )


EXPERIMENT = Design(
    lambda scale: adamw_clock(scale, AT[scale.name]),
    registered="7f9158ff015f95700c67d4b2bcc4b645f9fc7840",
    # New ones: those of the drift have been looked at.
    seeds=seeds_at(smoke="3-4", laptop="151-155", night="211-220", gpu="21-23", paper="21-23"),
    earlier_seeds=rounds_at(laptop="121-125"),
    takes_a_language=True,
    picture=Picture(
        "clock", "Trace of the Hessian and sum of the roots of its diagonal over the time of AdamW's drift"
    ),
    headline="one-clock",
)
