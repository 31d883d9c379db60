"""What is measured and claimed of models of equal knowledge, whichever language they know."""

import math
from dataclasses import replace

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.equal_knowledge import (
    EqualKnowledge,
    most_divergent,
    per_doubling,
    polished,
    share_of_fall,
)
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.polished_panels import (
    ACCURACY_100,
    ACCURACY_300,
    OTHER_TASK,
    STANDARDISED_300,
    panels_of_polished,
)
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.claims import premise_of_loss
from isoloss.experiments.statistics.across_models import DoublingsApart
from isoloss.experiments.statistics.along_runs import Scaled, in_doublings, in_points
from isoloss.measurements.quantity import Quantity
from isoloss.measurements.robustness import (
    SecondLanguageQuantity,
    WeightDamageQuantity,
    bits_column,
    noise_column,
)
from isoloss.models.transformers import GPT2Transformer, PreLayerNormTransformer
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.polishing import Polished
from isoloss.results.verdict import Region, above, below, within

MARGIN = 0.5
"""Percentage points per doubling of the trace: a quarter of what the paper's models gain as theirs halves."""
SET_APART = "none: the paper compares checkpoints, and does not separate flatness from KL"
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


PREMISES = (
    premise_of_loss(
        "know-nearly-everything",
        sentence="The polished models are within 1e-5 nats of the distribution.",
        paper="0.008 to 0.012 nats (losses 3.204 to 3.208 over an entropy of 3.196; Figures 1 and 2)",
        measure="mean over starts of the largest KL(distribution || model) among its polished models",
        unit="× 1e-5 nats",
        bound=1.0,
        statistic=most_divergent,
        reason="a thousandth of the KL of the paper's models: there is nothing left to learn",
    ),
    premise_of_loss(
        "know-the-same",
        sentence="The polished models of one start have the same KL to within a fifth.",
        paper=SET_APART,
        measure="mean over starts of log2 of the largest KL over the smallest among its polished models",
        unit="doublings of KL",
        bound=math.log2(1.2),
        statistic=DoublingsApart("kl", polished, within="start"),
        reason="log2 of 1.2, a fifth more",
    ),
    Claim(
        name="differ-in-flatness",
        sentence="The traces of the polished models of one start lie a factor of four apart.",
        paper=SET_APART,
        measure="mean over starts of log2 of the largest trace over the smallest among its polished models",
        unit="doublings of the trace",
        claimed=above(2.0),
        statistic=DoublingsApart("trace", polished, within="start"),
        kind="premise",
        lowest=0.0,
        reason="at least twice as far as the trace falls along the paper's runs",
    ),
)

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


def in_seconds(
    models: EqualKnowledge, architecture: PreLayerNormTransformer | GPT2Transformer
) -> EqualKnowledge:
    """The same with one small model and a few steps, down to a quarter of a nat: for the scale smoke."""
    rule, kl = AdamW(8e-3, warm_up_steps=5, weight_decay=0.0), 0.25
    return replace(
        models,
        architectures=(architecture,),
        start=Polished(1.2 * kl, rule),
        start_steps=30,
        flattened=tuple(replace(branch, steps=10) for branch in models.flattened),
        sharpened_steps=4,
        polished=Polished(kl, rule, held_out=64),
        polished_steps=20,
        batch_size=64,
    )


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
    sizes = scale.sizes
    followed = (sizes.loss(models.predicted), sizes.trace())
    of_second = () if scale.name == "laptop" else SECOND_LANGUAGE
    return Experiment(
        name=name,
        gallery=gallery,
        title=title,
        question=Question.FLATNESS,
        text=text,
        runs=models.runs(scale.seeds, followed, (*_downstream(scale, models, tasks), *also)),
        claims=(*CLAIMS, *of_second),
        panels=lambda table: panels_of_polished(table, sizes),
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
