"""From one start, four ways to the same loss that differ in flatness: does flatness cause anything?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from isoloss.errors import BadInput
from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.drift_panels import ACCURACY, LOSS, TRACE
from isoloss.experiments.drift_runs import PART, VARIANT, Branch, Measured, branched_runs, plain
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.languages import GRAMMAR_ENTROPY, LanguagePlan
from isoloss.experiments.scale import STANDARDISED, Scale
from isoloss.experiments.schedules import Schedule, first_step
from isoloss.experiments.shared.claims import premise_of_loss
from isoloss.experiments.shared.grammar_and_hmm import GRAMMAR
from isoloss.experiments.shared.language_runs import ScaleName, at_scales, rounds_at, seeds_at
from isoloss.experiments.statistics.across_models import PerDoubling
from isoloss.experiments.statistics.along_runs import in_points, range_in_doublings, relative_range
from isoloss.measurements.accuracy import Standardised
from isoloss.measurements.entropy import masked_entropy
from isoloss.measurements.sample_efficiency import SampleEfficiencyQuantity
from isoloss.panels import Axis, Colour, Dots, Panel, Table
from isoloss.pretraining.descent import SGD
from isoloss.pretraining.flatness_regularised import FlatnessRegularised, Sharpened
from isoloss.pretraining.update_rule import UpdateRuleSettings
from isoloss.progress import silent
from isoloss.results.verdict import above, below

EXAMPLES = (100, 1000)
SETS_APART = "none: the paper sets flatness only by SAM, on real text, where KL is not known"
BY_CONTINUATION = Colour("pace", "continued by")


@dataclass(frozen=True)
class Interventions:
    """Four continuations from the last checkpoints of the model of one `width`, with equally many steps.

    SGD by `schedule` until its time is `time`; the same with `quieter` times the batch, and hence hardly any
    noise; and, with `regularised_batch` sentences, the flatness regulariser and `sharpened`, the same with
    its sign flipped. The regulariser's noise is √(η / 2B), with η and B of the schedule: thus the penalty on
    the trace, σ²/2, equals that of SGD's own noise, η / 4B. The sharpened one must have a lower rate: at the
    schedule's own, SGD leaves minima that sharp.
    """

    width: int
    schedule: Schedule
    time: float
    regularised_batch: int
    sharpened: Sharpened
    quieter: int = 32

    @property
    def noise(self) -> float:
        """σ of the regulariser's noise on weights."""
        return math.sqrt(self.schedule.learning_rate / (2 * self.schedule.batch_size))

    @property
    def branches(self) -> tuple[Branch, ...]:
        """SGD with noise, without, the regulariser, and its opposite."""
        rate, batch = self.schedule.learning_rate, self.schedule.batch_size
        sgd = SGD(rate, warm_up_share=0.0)
        return (
            self._continuation("SGD with noise", sgd, batch),
            self._continuation("SGD without noise", sgd, self.quieter * batch),
            self._continuation("flattened", FlatnessRegularised(self.noise, sgd), self.regularised_batch),
            self._continuation("sharpened", self.sharpened, self.regularised_batch),
        )

    def _continuation(self, name: str, rule: UpdateRuleSettings, batch: int) -> Branch:
        branch = plain(Schedule(self.schedule.learning_rate, batch), (first_step(self.schedule, self.time),))
        return replace(branch, part=VARIANT, rule=rule, variant=name, key=name.replace(" ", "-").lower())


def range_of_losses(runs: Sequence[pl.DataFrame]) -> float:
    """Largest minus smallest of the ways' mean losses, over their mean; nan for fewer than two ways."""
    return relative_range(_means(runs, "loss"))


def doublings_apart(runs: Sequence[pl.DataFrame]) -> float:
    """log2 of the sharpest intervention's mean trace over the flattest's; nan for fewer than two."""
    return range_in_doublings(_means(runs, "trace"))


def continuations(runs: Sequence[pl.DataFrame], *columns: str) -> pl.DataFrame:
    """The rows of the ways from a start that have the columns; a start is known by its seed."""
    continued = [run for run in runs if {PART, *columns} <= {*run.columns} and run[PART][0] == VARIANT]
    return pl.concat(continued, how="diagonal_relaxed") if continued else pl.DataFrame()


def _means(runs: Sequence[pl.DataFrame], column: str) -> np.ndarray:
    table = continuations(runs, column)
    if table.is_empty():
        return np.array([])
    return table.group_by("pace").agg(pl.col(column).mean())[column].to_numpy()


def _causes(name: str, of: str, what: str) -> Claim:
    return Claim(
        name=name,
        sentence=f"At equal loss, {what} falls by a point when an intervention doubles the trace.",
        paper=SETS_APART,
        measure=(
            f"least-squares slope of {what} over log2 trace, among the models from one start; an intercept "
            "for every start"
        ),
        unit="percentage points per doubling of the trace",
        claimed=below(-1.0),
        statistic=PerDoubling(in_points(of), continuations),
        reason="half of the paper's gain as the trace halves",
    )


CLAIMS = (
    premise_of_loss(
        "one-loss",
        sentence="The four interventions reach the same loss.",
        paper=SETS_APART,
        measure="largest minus smallest of the interventions' mean exact losses, over their mean",
        bound=0.005,
        statistic=range_of_losses,
        reason="four times the spread of the paper's losses",
    ),
    Claim(
        name="flatness-differs",
        sentence="The four interventions reach minima whose flatness differs by a factor of two.",
        paper=SETS_APART,
        measure="log2 of the sharpest intervention's mean trace over the flattest's",
        unit="doublings of the trace",
        claimed=above(1.0),
        statistic=doublings_apart,
        kind="premise",
        lowest=0.0,
        reason="without a difference in flatness there is no slope over it",
    ),
    _causes("flatter-is-better", "accuracy", "the probe's accuracy"),
    _causes("flatter-is-better-standardised", STANDARDISED, "the standardised probe's accuracy"),
    _causes("flatter-needs-fewer", f"accuracy_{EXAMPLES[0]}", f"accuracy from {EXAMPLES[0]} examples"),
)
"""The bounds were fixed on runs with pilot seeds."""


def intervention_panels(table: pl.DataFrame) -> tuple[Panel, ...]:
    """Accuracy over the trace, one dot per start and continuation, for each probe; and all numbers."""
    rows = table.filter(pl.col(PART) == VARIANT)
    few = [Axis(f"accuracy_{n}", f"accuracy from {n:,} examples", f"accuracy_{n}_error") for n in EXAMPLES]
    standardised = Axis(STANDARDISED, "standardised probe's accuracy", f"{STANDARDISED}_error")
    known = [axis for axis in (ACCURACY, standardised, *few) if axis.column in rows.columns]
    return (
        Panel(
            "accuracy-over-trace",
            "Does accuracy follow flatness at equal loss?",
            "One dot per start and continuation, all at about the same loss; bars are one standard error "
            "over sentences.",
            (
                *(Dots(TRACE, axis, BY_CONTINUATION) for axis in known),
                Table((Axis("pace", "continued by"), Axis("seed", "seed"), TRACE, LOSS, *known)),
            ),
            rows,
            shows=("flatter-is-better",),
        ),
    )


SMOKE = Interventions(
    width=16,
    schedule=Schedule(0.4, 8),
    time=0.02,
    regularised_batch=8,
    sharpened=Sharpened((1.5, 2.5), optimiser=SGD(0.1, warm_up_share=0.0)),
    quieter=4,
)

LAPTOP = Interventions(
    width=32,
    schedule=Schedule(0.4, 64),
    time=0.3,
    regularised_batch=256,
    sharpened=Sharpened(
        (1.396, 1.408), 0.02, strength=12.0, smoothing=0.9, optimiser=SGD(0.1, warm_up_share=0.0)
    ),
)
"""The window is of the raw weights' loss; docs/pilots.md has why."""

NIGHT = replace(LAPTOP, time=1.0, sharpened=replace(LAPTOP.sharpened, strength=3.0))
"""Three times as long, from the drift's starts, and sharpened less; docs/pilots.md has why."""

PAPER = Interventions(
    width=512,
    schedule=Schedule(0.4, 512),
    time=0.3,
    regularised_batch=2048,
    sharpened=Sharpened(
        (GRAMMAR_ENTROPY + 0.02, GRAMMAR_ENTROPY + 0.05), strength=12.0, optimiser=SGD(0.1, warm_up_share=0.0)
    ),
)
"""No pilot has been run at this scale."""

AT = at_scales(SMOKE, LAPTOP, NIGHT, replace(PAPER, width=128), PAPER)


ENTROPY_SENTENCES = 4000


def sharpened_on(plan: LanguagePlan, settings: Interventions, scale: ScaleName) -> Interventions:
    """The settings with the sharpening's window rescaled by the ratio of the two languages' entropies."""
    languages = (each.language(Path(), silent) for each in (GRAMMAR[scale].language, plan))
    before, now = (masked_entropy(language, ENTROPY_SENTENCES, seed=0).value for language in languages)
    low, high = settings.sharpened.loss_window
    window = (round(low * now / before, 4), round(high * now / before, 4))
    if not window[0] < window[1]:
        raise BadInput(
            f"a word of the language is settled by the others (entropy {now:.4g} nats), which leaves "
            "nothing to sharpen a model by; give another language, or leave flatness-interventions out"
        )
    return replace(settings, sharpened=replace(settings.sharpened, loss_window=window))


def flatness_interventions(scale: Scale, settings: Interventions) -> Experiment:
    """Four ways from one start at the same loss, flatter and sharper, and how a downstream task fares."""
    sizes, task = scale.sizes, scale.grammar.tasks[1]
    if scale.language_given:
        settings = sharpened_on(scale.grammar.language, settings, scale.name)
    probe = sizes.probe_of(task)
    few = SampleEfficiencyQuantity(task, sizes.probe_test, sizes.probe, sizes.seed, EXAMPLES)
    standardised = sizes.probe_of(task, STANDARDISED, Standardised())
    measured = Measured((sizes.loss(), sizes.trace(), probe, standardised, few))
    return Experiment(
        name="flatness-interventions",
        title="Is flatter better where flatness is set at equal loss?",
        question=Question.FLATNESS,
        text=(
            "The paper finds that, among models of the same pre-training loss, flatter ones do better "
            "downstream, and infers that flatness is the reason. Here flatness is set at equal loss: from "
            "each of AdamW's last checkpoints, training continues in four ways, for the same number of steps "
            "and to the same loss. SGD with noise becomes flatter, by Theorem 3.3. SGD with "
            f"{settings.quieter} times the batch, hence hardly any noise, does not. The flatness regulariser "
            "descends L + (σ²/2) Tr H, weighted as the noise of SGD weights it. The same regulariser with "
            "its sign reversed makes the model sharper, as strongly as the pre-training loss allows. KL, a "
            "small part of the loss, is not made equal; in flatten-polish it is.",
            "If flatness is the reason, accuracy falls whenever the trace is made to rise, whichever way is "
            "used. The probes are the paper's and one on standardised features; both are also trained on few "
            "examples.",
        ),
        runs=branched_runs(scale.grammar, (settings.width,), scale.seeds, settings.branches, measured),
        claims=CLAIMS,
        panels=intervention_panels,
    )


EXPERIMENT = Design(
    lambda scale: flatness_interventions(scale, AT[scale.name]),
    registered="7f9158ff015f95700c67d4b2bcc4b645f9fc7840",
    seeds=seeds_at(smoke="3-4", laptop="121-125", night="251-260", gpu="21-23", paper="21-23"),
    earlier_seeds=rounds_at(night="211-220"),
    takes_a_language=True,
    picture=Picture(
        "accuracy-over-trace", "Accuracy over the trace of models made flatter and sharper at one loss"
    ),
)
