"""What is measured, claimed and shown of models of equal knowledge, whichever language they know."""

from collections.abc import Callable
from dataclasses import replace

import polars as pl

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.equal_knowledge import (
    POLISHED,
    PREMISES,
    SET_APART,
    STAGE,
    EqualKnowledge,
    per_doubling,
    share_of_fall,
)
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import ACCURACY, LOG_KL, TRACE, trace_bars
from isoloss.experiments.scale import STANDARDISED, MeasurementSizes, Scale
from isoloss.experiments.statistics.along_runs import Scaled, in_doublings, in_points
from isoloss.measurements.quantity import Quantity
from isoloss.measurements.robustness import (
    SecondLanguageQuantity,
    WeightDamageQuantity,
    bits_column,
    noise_column,
)
from isoloss.panels import Axis, Chart, Colour, Dots, Panel, Table
from isoloss.pretraining.descent import AdamW
from isoloss.results.verdict import Region, above, below, within

ACCURACY_100, ACCURACY_300, STANDARDISED_300 = "accuracy_100", "accuracy_300", f"{STANDARDISED}_300"
CENTRED, LONGER = "centred_accuracy", "longer_centred_accuracy"
CENTRED_300, LONGER_300 = f"{CENTRED}_300", f"{LONGER}_300"
FEATURE_MEAN = "feature_mean_square"
OTHER_TASK = "other_task_accuracy"
BY_BRANCH = Colour("branch", "branch")
START = "start"

PROBES = (
    Axis(ACCURACY_300, "accuracy from 300 examples", f"{ACCURACY_300}_error"),
    Axis(ACCURACY_100, "accuracy from 100 examples", f"{ACCURACY_100}_error"),
    replace(ACCURACY, error="accuracy_error"),
    Axis(STANDARDISED_300, "accuracy from 300, features standardised", f"{STANDARDISED_300}_error"),
    Axis(CENTRED_300, "accuracy from 300, features centred", f"{CENTRED_300}_error"),
    Axis(LONGER_300, "accuracy from 300, centred, trained ten times as long", f"{LONGER_300}_error"),
    Axis(FEATURE_MEAN, "squared length of the features' mean", f"{FEATURE_MEAN}_error", logarithmic=True),
    Axis(OTHER_TASK, "accuracy on the second task", f"{OTHER_TASK}_error"),
)
DAMAGE = tuple(
    Axis(column, title, f"{column}_error", logarithmic=True)
    for column, title in (
        (noise_column(0.01), "KL under weight noise of 0.01 (nats)"),
        (bits_column(6), "KL at 6 bits (nats)"),
        (bits_column(4), "KL at 4 bits (nats)"),
        ("forgotten_kl", "KL after learning a second language (nats)"),
    )
)
BARS = "One dot per start and branch, polished to equal KL; bars are one standard error. "
PLACES = (Axis("branch", "branch"), Axis("width", "width"), Axis("seed", "seed"))

MARGIN = 0.5
"""Percentage points per doubling of the trace: a quarter of what the paper's models gain as theirs halves."""
BETTER = "+1.6 and +4.0 percentage points as the trace falls (Section 4)"
A_QUARTER = "a quarter of the paper's gain as the trace halves"


def as_the_trace_doubles(
    name: str,
    sentence: str,
    what: str,
    of: Scaled,
    claimed: Region,
    reason: str = "",
    paper: str = SET_APART,
) -> Claim:
    """How `what` the column `of` says changes among the polished models of one start."""
    return Claim(
        name=name,
        sentence=sentence,
        paper=paper,
        measure=(
            f"least-squares slope of {what} over log2 trace, among the polished models of one start; an "
            "intercept for every start"
        ),
        unit=f"{of.unit} per doubling of the trace",
        claimed=claimed,
        statistic=per_doubling(of),
        reason=reason,
    )


def _flatter_is_no_better(name: str, what: str, column: str) -> Claim:
    sentence = f"At equal KL, {what} does not fall by half a point as the trace doubles."
    return as_the_trace_doubles(name, sentence, what, in_points(column), above(-MARGIN), A_QUARTER, BETTER)


CLAIMS = (
    *PREMISES,
    Claim(
        name="noise-flattens",
        answers=Question.THEORY,
        sentence=(
            "Without the noise of sampled words as labels, SGD drifts less than half as far towards flatter "
            "models."
        ),
        paper="the drift is the gradient noise's (Theorem 3.3; no number given)",
        measure="fall of log2 trace along SGD on soft labels, over that on sampled words; sums over starts",
        unit="of the fall on sampled words",
        claimed=below(0.5),
        statistic=share_of_fall,
        reason="it would be 1 if the drift needed no noise",
    ),
    _flatter_is_no_better("flatter-is-no-better", "accuracy from 300 examples", ACCURACY_300),
    _flatter_is_no_better("flatter-is-no-better-from-fewer", "accuracy from 100 examples", ACCURACY_100),
    as_the_trace_doubles(
        "flatter-is-neither-better-nor-worse",
        "On standardised features, accuracy from 300 examples changes by less than half a point as the trace "
        "doubles.",
        "accuracy from 300 examples, of standardised features,",
        in_points(STANDARDISED_300),
        within(MARGIN),
        A_QUARTER,
        BETTER,
    ),
    as_the_trace_doubles(
        "noise-harms-the-sharper",
        "Noise on the weights harms sharper models more: at least as the root of the trace.",
        "log2 KL under Gaussian noise of 0.01 on every weight",
        in_doublings(noise_column(0.01)),
        above(0.5),
        "half of the slope that ½ σ² Tr ∇²L implies, 1",
    ),
    as_the_trace_doubles(
        "rounding-harms-the-sharper",
        "Rounding the weights to 6 bits harms sharper models more.",
        "log2 KL after rounding every matrix to 6 bits, by row",
        in_doublings(bits_column(6)),
        above(0.25),
        "a quarter of the slope for errors spread evenly over all weights, 1",
    ),
)
"""docs/pilots.md has the runs on which the bounds were found."""

SECOND_LANGUAGE = (
    as_the_trace_doubles(
        "a-second-language-is-learnt-alike",
        "Flat and sharp models learn a second language nearly equally well.",
        "log2 KL on a second language, which shares the lower levels, after fine-tuning to it",
        in_doublings("second_kl"),
        within(0.1),
        "a tenth of the slope of an effect in proportion to the trace",
    ),
    as_the_trace_doubles(
        "the-first-language-is-forgotten-alike",
        "When fine-tuned to a second language, flat and sharp models forget the first nearly equally.",
        "log2 KL on the first language after fine-tuning to one that shares its lower levels",
        in_doublings("forgotten_kl"),
        within(0.1),
        "a tenth of the slope of an effect in proportion to the trace",
    ),
)
"""At the scales that measure it: fine-tuning takes a quarter of the time of all else."""

SECOND = SecondLanguageQuantity(
    sentences=500,
    seed=20230711,
    rule=AdamW(1e-3, warm_up_steps=20, weight_decay=0.0),
    steps=300,
    batch_size=64,
    every=25,
    target=0.1,
)
"""At this rate a pilot model with seed 900 came from 0.1 nats and more to 0.03 of the second language."""


def polished_models(
    models: EqualKnowledge,
    scale: Scale,
    tasks: tuple[str, str],
    *,
    name: str,
    title: str,
    text: tuple[str, ...],
    gallery: int | None = None,
    also: tuple[Quantity, ...] = (),
) -> Experiment:
    """An experiment on such models of one language: they are probed on the first of `tasks`, damaged and,
    but at laptop, probed on the second too and fine-tuned to a second language; and `also` is measured.
    """
    of_second = () if scale.name == "laptop" else SECOND_LANGUAGE
    return Experiment(
        name=name,
        gallery=gallery,
        title=title,
        question=Question.FLATNESS,
        text=text,
        runs=models.runs(scale, (*_downstream(scale, models, tasks), *also)),
        claims=(*CLAIMS, *of_second),
        panels=lambda table: panels_of_polished(table, scale.sizes),
    )


def _downstream(scale: Scale, models: EqualKnowledge, tasks: tuple[str, str]) -> tuple[Quantity, ...]:
    """What is measured of polished models: probes, damaged weights and, but at laptop, a second language."""
    sizes, (task, other) = scale.sizes, tasks
    _, *from_few = sizes.probes_beside(task)
    damage = WeightDamageQuantity(min(500, sizes.loss_sentences), sizes.seed + 6, objective=models.predicted)
    if scale.name == "laptop":
        return (*from_few, damage)
    second = replace(SECOND, sentences=min(500, sizes.loss_sentences), objective=models.predicted)
    whole = (sizes.probe_of(task), *sizes.probes_beside(task), sizes.probe_of(other, OTHER_TASK))
    return (*whole, damage, second)


def polished_rows(table: pl.DataFrame) -> pl.DataFrame:
    """Those of polished models, with what each was polished from, but for its branch, as `start`."""
    start = pl.format("seed {}, width {}, {}", "seed", "width", "language")
    return table.filter(pl.col(STAGE) == POLISHED).with_columns(start.alias(START))


def _against_the_trace(axes: tuple[Axis, ...]) -> tuple[Dots, ...]:
    return tuple(Dots(TRACE, axis, BY_BRANCH, START) for axis in axes)


def polished_panel(
    sizes: MeasurementSizes, name: str, title: str, axes: tuple[Axis, ...], shows: tuple[str, ...]
) -> Callable[[pl.DataFrame], tuple[Panel, ...]]:
    """Panels of an experiment: what has been measured of `axes` against the trace, and as a table."""

    def panels(table: pl.DataFrame) -> tuple[Panel, ...]:
        rows = polished_rows(table)
        shown = tuple(axis for axis in axes if axis.column in rows.columns)
        charts: tuple[Chart, ...] = (*_against_the_trace(shown), Table((*PLACES, LOG_KL, TRACE, *shown)))
        return (Panel(name, title, f"{BARS}{trace_bars(sizes)}", charts, rows, shows=shows),)

    return panels


def panels_of_polished(table: pl.DataFrame, sizes: MeasurementSizes) -> tuple[Panel, ...]:
    """Those of `polished_models`: the claims' quantities, every other one, and the way to them."""
    rows = polished_rows(table)
    probes, damage = (tuple(axis for axis in of if axis.column in rows.columns) for of in (PROBES, DAMAGE))
    return (
        Panel(
            "equal-knowledge",
            "What changes with flatness at equal KL, and what does not",
            f"{BARS}{trace_bars(sizes)}First downstream accuracy, then what damage to the weights costs.",
            _against_the_trace((*probes[:1], *damage[:2])),
            rows,
            shows=("flatter-is-no-better", "noise-harms-the-sharper", "rounding-harms-the-sharper"),
        ),
        Panel(
            "everything",
            "Every probe, and every damage",
            BARS,
            (*_against_the_trace((*probes[1:], *damage[2:])), Table((*PLACES, LOG_KL, TRACE, *probes))),
            rows,
        ),
        Panel(
            "way",
            "Starts and branches, before and after polishing",
            f"One dot per model. {trace_bars(sizes)}",
            (Dots(LOG_KL, TRACE, Colour(STAGE, "stage")), Dots(LOG_KL, TRACE, BY_BRANCH)),
            table,
        ),
    )
