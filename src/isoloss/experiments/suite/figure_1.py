"""Figure 1: exact loss, trace of the Hessian and probe accuracy of checkpoints late in training."""

from dataclasses import replace

import polars as pl

from isoloss.experiments.claims import Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.experiment import Experiment, PlannedReference, control_references
from isoloss.experiments.figures import (
    ACCURACY,
    BY_WIDTH,
    LOSS,
    STEP,
    TRACE,
    entropy_of,
    judged_from,
    loss_bars,
    probe_bars,
    trace_bars,
)
from isoloss.experiments.planned_run import MeasuredAt, measured_at
from isoloss.experiments.scale import FRESH_SEEDS, STANDARDISED, MeasurementSizes, Scale, grammar_runs
from isoloss.experiments.shared.claims import FIGURE_1, FIGURE_1_WITH_FEW_SEEDS
from isoloss.experiments.shared.language_runs import rounds_at, seeds_at
from isoloss.measurements.references import TaskReference
from isoloss.panels import Axis, Dots, Lines, Panel

ELSEWHERE = (
    "These seeds are too few to decide whether the loss stays the same, whether accuracy rises, and whether, "
    "at equal KL, flatness tells which checkpoint is better; the experiments figure-1 and same-verdict judge "
    "those claims at the scale night."
)

LAPTOP_STEPS = (1000, 2000, 2828, 3447, 4202, 5657)
"""The checkpoints that are measured: fewer than in other experiments, so that more seeds have the time.
docs/pilots.md has why these."""

REFERENCE = "chance and ceiling"
HELD_AGAINST = (
    ("chance_accuracy", "chance"),
    ("words_accuracy", "a probe on the words alone"),
    ("untrained_accuracy", "the best untrained model"),
    ("posterior_accuracy", "ceiling (the exact posterior)"),
)
"""Columns of the references, and their names in captions."""
PROBES = ("accuracy", STANDARDISED)
EXAMPLES = Axis("examples", "labelled sentences", logarithmic=True)
OF_STANDARDISED = Axis(STANDARDISED, "accuracy, standardised features", f"{STANDARDISED}_deviation")


def figure_1(scale: Scale) -> Experiment:
    """The figure's runs, claims and panels at a scale; at laptop a seed has a model of one size."""
    if scale.name == "laptop":
        scale = replace(scale, grammar=replace(scale.grammar, in_turn=True))
    return after_saturation(scale)


def after_saturation(scale: Scale) -> Experiment:
    """Its runs, claims and panels with the sizes that the scale's grammar gives each seed."""
    at_laptop = scale.name == "laptop"
    task = scale.grammar.tasks[1]
    steps = LAPTOP_STEPS if at_laptop else scale.grammar.checkpoint_steps
    probe = scale.sizes.probe_of(task)
    measured = measured_at(steps, scale.sizes.loss(), scale.sizes.trace(), probe)
    besides = () if at_laptop else scale.sizes.probes_beside(task)
    beside = tuple(MeasuredAt(quantity, (scale.grammar.steps,)) for quantity in besides)
    untrained = tuple((f"of width {model.shape.width}", model) for model in scale.grammar.architectures)
    return Experiment(
        name="figure-1",
        gallery=0,
        title="At the same pre-training loss, are later checkpoints flatter and better?",
        question=Question.FLATNESS,
        text=(
            "The paper pre-trains transformers of several sizes on sentences of a grammar whose exact "
            "distribution is known, and compares checkpoints whose loss has converged. All have the same "
            "loss but differ in downstream accuracy, and the trace of the Hessian tells the better ones "
            "apart.",
            "The first charts show loss, trace and accuracy of each run over its steps; the others have a "
            "dot for each checkpoint late in training, from the step on from which claims are judged.",
            *((ELSEWHERE,) if at_laptop else ()),
        ),
        runs=grammar_runs(scale, (*measured, *beside)),
        references=(
            PlannedReference(REFERENCE, scale.grammar.language, TaskReference(probe)),
            *control_references(scale.grammar.language, probe, untrained),
        ),
        claims=FIGURE_1_WITH_FEW_SEEDS if at_laptop else FIGURE_1,
        panels=lambda table: _panels(table, scale),
        paper_numbers=(("losses", "3.204 to 3.208 nats"),),
    )


def _panels(table: pl.DataFrame, scale: Scale) -> tuple[Panel, ...]:
    every = table.filter(pl.col("step").is_not_null())
    return (
        _over_steps(every, scale),
        *_dots(every.filter("saturated"), _reference(table), scale),
        *_over_examples(every, scale.sizes),
    )


def _over_steps(every: pl.DataFrame, scale: Scale) -> Panel:
    saturated_from = scale.grammar.saturated_from
    caption = (
        "One line per run, on a shared axis of steps. The dots below are the checkpoints from the dashed "
        f"line (step {saturated_from:,}) on; claims are judged on these. "
        f"{loss_bars(scale.sizes)}{trace_bars(scale.sizes)}{probe_bars(scale.sizes)}"
    )
    level, marked = {LOSS: entropy_of(every)}, judged_from(saturated_from, every)
    lines = tuple(
        Lines(STEP, y, BY_WIDTH, "run", marked=marked, level=level.get(y)) for y in (LOSS, TRACE, ACCURACY)
    )
    shows = ("later-is-flatter", "later-is-better")
    return Panel("steps", "Loss, trace and accuracy over steps", caption, lines, every, "stacked", shows)


def _dots(dots: pl.DataFrame, reference: str, scale: Scale) -> tuple[Panel, Panel]:
    sizes = scale.sizes
    vertical = (
        f"{reference}Vertical bars: one standard deviation over {len(sizes.probe.seeds)} probe seeds, each "
        f"on {sizes.probe_test:,} test sentences. "
    )
    of_loss = (
        "Horizontal bars: one standard error of KL(distribution || model) over "
        f"{sizes.loss_sentences:,} sentences; the entropy of the distribution adds the same constant to all "
        "dots."
    )
    of_trace = (
        f"Horizontal bars: one standard error over {sizes.trace_sentences:,} sentences. The trace is that of "
        "the Fisher information, which equals the Hessian's where the model has learnt the distribution "
        "(Lemma 3.2). Traces of different widths are sums over different parameters, so claims only rank the "
        "dots of one run against each other; only Figure 5 enlarges the models to one shape."
    )
    loss, trace = ((Dots(x, ACCURACY, BY_WIDTH),) for x in (LOSS, TRACE))
    shows = () if scale.name == "laptop" else ("flatter-is-better-at-one-kl",)
    return (
        Panel("loss", "Exact loss against accuracy", vertical + of_loss, loss, dots),
        Panel("trace", "Trace against accuracy", vertical + of_trace, trace, dots, shows=shows),
    )


def _over_examples(every: pl.DataFrame, sizes: MeasurementSizes) -> tuple[Panel, ...]:
    """Both probes over labelled sentences, at the end of training; no panel until both have been measured."""
    if STANDARDISED not in every.columns:
        return ()
    numbers = {**{f"_{number}": number for number in sizes.fewer_examples}, "": sizes.probe_train}
    last = every.filter(pl.col(STANDARDISED).is_not_null())
    rows = [
        last.select(
            *("run", "seed", "width"),
            *(pl.col(f"{probe}{suffix}").alias(probe) for probe in PROBES),
            *(pl.col(f"{probe}{suffix}_deviation").alias(f"{probe}_deviation") for probe in PROBES),
            examples=pl.lit(number),
        )
        for suffix, number in numbers.items()
    ]
    caption = (
        "The last checkpoints. The paper's probe has one learning rate, whatever the scale of the features; "
        "next to it, the same probe on features standardised to mean 0 and deviation 1. Bars: one standard "
        f"deviation over two draws of the sentences; at {sizes.probe_train:,}, over probe seeds."
    )
    charts = tuple(Lines(EXAMPLES, y, BY_WIDTH, "run") for y in (ACCURACY, OF_STANDARDISED))
    return (
        Panel(
            "examples", "Accuracy against the number of labelled sentences", caption, charts, pl.concat(rows)
        ),
    )


def _reference(table: pl.DataFrame) -> str:
    """The references for accuracies, those of them that have been measured, as a sentence."""
    references = [
        f"{words} {max(table[column].drop_nulls().to_list()):.3f}"
        for column, words in HELD_AGAINST
        if column in table.columns
    ]
    return f"{', '.join(references)}. ".capitalize() if references else ""


SEEDS = {**FRESH_SEEDS, **seeds_at(laptop="743-748")}

EXPERIMENT = Design(
    figure_1,
    registered="00d36cb680a6b816bc1a88b780393a6d98b89d91",
    seeds=SEEDS,
    headline="later-is-better",
    earlier_seeds=rounds_at(
        laptop="111-115; 171-175; 621-625; 631-635; 421-427; 881-887; 736-742; 146-149",
        night="201-210; 241-250",
    ),
    takes_a_language=True,
    needs_room=True,
    picture=Picture("steps", "Loss, trace of the Hessian and accuracy over pre-training steps"),
    of_the_paper=True,
)
