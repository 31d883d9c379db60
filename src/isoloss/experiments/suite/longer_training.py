"""Beyond the paper: does longer training always help? Probe, fine-tuning and trace far past saturation."""

from dataclasses import dataclass, replace

import polars as pl

from isoloss.errors import BadInput
from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.compared_algorithms import compared_model
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import ACCURACY, BY_SEED, KL, STEP, TRACE
from isoloss.experiments.planned_run import PlannedRun, measured_at
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import at_scales, rounds_at, runs_of_sizes, seeds_at
from isoloss.experiments.statistics.along_runs import (
    FromStep,
    MeanWithinRuns,
    Scaled,
    Slope,
    in_doublings,
    in_points,
)
from isoloss.experiments.statistics.seed_bootstrap import Statistic
from isoloss.measurements.accuracy import AccuracyQuantity, FineTuning
from isoloss.measurements.fine_tuning import FineTuningSettings
from isoloss.measurements.on_sentences.loss_rise import NoiseSensitivityQuantity, noise_column
from isoloss.measurements.task_sentences import TaskSentences
from isoloss.panels import Axis, Lines, Mark, Panel
from isoloss.pretraining.specification import log_spaced_steps
from isoloss.results.verdict import above, below

OVER_TRAINED = "beyond the paper: Springer et al. 2025 report that over-trained models"
FINE_TUNED = Axis("fine_tuned", "accuracy after fine-tuning", "fine_tuned_deviation")


@dataclass(frozen=True)
class LongerRuns:
    """The compared size trained longer by the grammar's rule, with its batches and seeds, to `steps`.

    `train` and so on are the sizes of the splits for fine-tuning a checkpoint; `noises` are in units of the
    weights' deviation before pre-training. Raises BadInput if the training
    split is too small for the warm-up of fine-tuning.
    """

    steps: int
    checkpoint_steps: tuple[int, ...]
    fine_tuning: FineTuningSettings
    train: int
    validation: int
    test: int
    noise_sentences: int
    noises: tuple[float, float, float] = (0.3, 1.0, 3.0)

    def __post_init__(self) -> None:
        self.fine_tuning.steps(self.train)


SMOKE = LongerRuns(
    steps=60,
    checkpoint_steps=(20, 40, 60),
    fine_tuning=FineTuningSettings(seeds=(0, 1), epochs=2, warm_up_steps=2),
    train=64,
    validation=32,
    test=64,
    noise_sentences=16,
)

LAPTOP = LongerRuns(
    steps=16_000,
    checkpoint_steps=(2828, 5657, 6727, 8000, 9514, 11_314, 13_454, 16_000),
    fine_tuning=FineTuningSettings(
        seeds=(0, 1), epochs=20, learning_rate=3e-3, warm_up_steps=20, every_word=True
    ),
    train=500,
    validation=500,
    test=2000,
    noise_sentences=300,
)
"""Nearly six times as long as saturation takes; docs/pilots.md has why these settings of fine-tuning."""

NIGHT = replace(
    LAPTOP, steps=32_000, checkpoint_steps=(8000, *log_spaced_steps(16_000, 32_000, per_doubling=6))
)
"""Eight times as long as saturation takes; longer does not fit into the night. docs/pilots.md has more."""

PAPER = LongerRuns(
    steps=480_000,
    checkpoint_steps=log_spaced_steps(30_000, 480_000),
    fine_tuning=FineTuningSettings(),
    train=80_000,
    validation=10_000,
    test=10_000,
    noise_sentences=10_000,
)
"""Four times the grammar's steps; the paper goes no further than those. Fine-tuning is its own (A.5)."""

GPU = replace(PAPER, noise_sentences=300, steps=48_000, checkpoint_steps=log_spaced_steps(6_000, 48_000))
AT = at_scales(SMOKE, LAPTOP, NIGHT, GPU, PAPER)


def longer_training(scale: Scale, longer: LongerRuns) -> Experiment:
    """Runs of the compared size, several times as long as the grammar's.

    Raises BadInput if there is no checkpoint at the step at which those end, or none after it.
    """
    usual_end = scale.grammar.steps
    if usual_end not in longer.checkpoint_steps[:-1]:
        raise BadInput(
            f"step {usual_end}, where the other runs end, must be a checkpoint before the last of "
            f"{longer.checkpoint_steps}"
        )
    return Experiment(
        name="longer-training",
        title="Does longer training always help?",
        question=Question.LATER,
        text=(
            "The paper finds that a model keeps becoming flatter and better after its loss has converged. "
            "Springer et al. (2025) find that models trained for too long are more sensitive to noise on "
            "their weights, and worse after fine-tuning. Here both effects are looked for in the same run, "
            "trained several times as long as the others.",
        ),
        runs=longer_runs(scale, longer),
        claims=longer_training_claims(usual_end, noise_column(longer.noises[1])),
        panels=lambda table: _panels(table, scale, longer),
    )


def longer_runs(scale: Scale, longer: LongerRuns) -> tuple[PlannedRun, ...]:
    """One run per seed."""
    grammar, sizes = scale.grammar, scale.sizes
    steps, task = longer.checkpoint_steps, grammar.tasks[1]
    examples = TaskSentences(task, longer.train, longer.validation, longer.test, sizes.seed + 3)
    fine_tuning = AccuracyQuantity(examples, FineTuning(longer.fine_tuning), "fine_tuned")
    noise = NoiseSensitivityQuantity(longer.noises, longer.noise_sentences, sizes.seed + 2)
    quantities = (sizes.loss(), sizes.trace(), sizes.probe_of(task), fine_tuning, noise)
    longer_still = replace(
        grammar,
        architectures=(compared_model(scale),),
        steps=longer.steps,
        checkpoint_steps=steps,
        most_seeds=(),
    )
    runs = runs_of_sizes(longer_still, scale.seeds, measured_at(steps, *quantities))
    return tuple(replace(run, name=f"seed-{run.seed}", labels=()) for run in runs)


def _panels(table: pl.DataFrame, scale: Scale, longer: LongerRuns) -> tuple[Panel, ...]:
    every = table.filter(pl.col("step").is_not_null())
    ending = scale.grammar.steps
    marked = Mark(ending, "other runs end")
    seeds, tuned = len(scale.sizes.probe.seeds), len(longer.fine_tuning.seeds)
    caption = (
        f"One line per run. The dashed line is at step {ending:,}, where the other runs end. Bars of "
        f"accuracies: one standard deviation over {seeds} seeds of the probe, {tuned} of fine-tuning; all "
        "other bars: one standard error over sentences."
    )
    of_steps = tuple(Lines(STEP, y, BY_SEED, "run", marked=marked) for y in (KL, ACCURACY, FINE_TUNED, TRACE))
    rises = tuple(Lines(STEP, _rise(noise), BY_SEED, "run", marked=marked) for noise in longer.noises)
    of_noise = (
        "Rise of the exact loss when Gaussian noise is added to the weights, with σ times the standard "
        "deviation that each tensor had before pre-training. Bars: one standard error over draws, each on "
        "its own sentences."
    )
    return (
        Panel(
            "steps",
            "Far past saturation",
            caption,
            of_steps,
            every,
            shows=("longer-is-better-by-probe", "longer-is-flatter"),
        ),
        Panel(
            "noise",
            "Sensitivity to noise on the weights",
            of_noise,
            rises,
            every,
            shows=("longer-is-more-sensitive",),
        ),
    )


def _rise(noise: float) -> Axis:
    column = noise_column(noise)
    return Axis(column, f"rise under noise of σ = {noise:g} (nats)", f"{column}_error", logarithmic=True)


def _since(usual_end: int, of: Scaled) -> Statistic:
    return FromStep(usual_end, MeanWithinRuns(Slope(of)))


def longer_training_claims(usual_end: int, rise: str) -> tuple[Claim, ...]:
    """What comes after step `usual_end`, where other runs end; `rise` is the column of the sensitivity."""
    slope, since = (
        "mean over runs of the Theil-Sen slope of",
        "per doubling of steps from the end of the other runs on",
    )
    return (
        Claim(
            name="longer-is-better-by-probe",
            sentence="Training far past saturation keeps improving linear-probe accuracy.",
            paper="accuracy “continues increasing” after the loss has converged (Section 2.3, Figure 2)",
            measure=f"{slope} the probe's accuracy {since}",
            unit="percentage points per doubling of steps",
            claimed=above(0.0),
            statistic=_since(usual_end, in_points("accuracy")),
        ),
        Claim(
            name="longer-is-flatter",
            sentence="Training far past saturation keeps making the minimum flatter.",
            paper="the trace falls with SGD's noise as long as training goes on (Theorem 3.3, Figure 4)",
            measure=f"{slope} log2(trace) {since}",
            unit="doublings of the trace per doubling of steps",
            claimed=below(0.0),
            statistic=_since(usual_end, in_doublings("trace")),
        ),
        Claim(
            name="longer-harms-fine-tuning",
            sentence="Training far past saturation makes the model worse after fine-tuning.",
            paper=f"{OVER_TRAINED} are worse after fine-tuning",
            measure=f"{slope} the accuracy after fine-tuning {since}",
            unit="percentage points per doubling of steps",
            claimed=below(0.0),
            statistic=_since(usual_end, in_points("fine_tuned")),
        ),
        Claim(
            name="longer-is-more-sensitive",
            sentence="Training far past saturation makes the loss more sensitive to noise on the weights.",
            paper=f"{OVER_TRAINED} are more sensitive to Gaussian noise",
            measure=f"{slope} log2 of the loss's rise under noise {since}",
            unit="doublings of the rise per doubling of steps",
            claimed=above(0.0),
            statistic=_since(usual_end, in_doublings(rise)),
        ),
    )


EXPERIMENT = Design(
    lambda scale: longer_training(scale, AT[scale.name]),
    registered="443864760435bf2251e1dfb5e00d411cf83d1d99",
    seeds=seeds_at(laptop="681-685", night="781-800"),
    earlier_seeds=rounds_at(laptop="111-115; 171-175", night="241-250; 401-420"),
)
