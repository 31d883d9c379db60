"""Beyond the paper: does longer training always help? Probe, fine-tuning and trace far past saturation."""

import polars as pl

from isoloss.errors import BadInput
from isoloss.experiments.claims import Claim
from isoloss.experiments.experiment import Experiment, Question
from isoloss.experiments.figures.axes import ACCURACY, BY_SEED, KL, STEP, TRACE
from isoloss.experiments.measured_at import MeasuredAt
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.scales.scale import Scale
from isoloss.experiments.statistics.along_runs import (
    FromStep,
    MeanWithinRuns,
    Scaled,
    Slope,
    in_doublings,
    in_points,
)
from isoloss.experiments.statistics.seed_bootstrap import Statistic
from isoloss.measurements.on_sentences.noise_sensitivity import noise_column
from isoloss.measurements.quantities.fine_tuning import FineTuningQuantity
from isoloss.panels import Axis, Lines, Panel
from isoloss.results.verdict import above, below

OVER_TRAINED = "beyond the paper: Springer et al. 2025 report that over-trained models"
FINE_TUNED = Axis("fine_tuned", "accuracy after fine-tuning", "fine_tuned_deviation")


def longer_training(scale: Scale) -> Experiment:
    """Runs of the compared size, several times as long as the grammar's own.

    Raises BadInput if there is no checkpoint at the step at which those end, or none after it.
    """
    longer, task, usual_end = scale.longer, scale.grammar.tasks[1], scale.grammar.steps
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
        runs=longer_runs(scale),
        claims=longer_training_claims(usual_end, noise_column(scale.flatness.noises[1])),
        panels=lambda table: _panels(table, scale),
        pilot_seeds=scale.pilot_seeds,
        settings=(
            ("steps", f"{longer.steps:,}; the other runs end at {usual_end:,}"),
            ("downstream task", task),
            (
                "fine-tuning",
                f"{longer.train:,} examples, {longer.fine_tuning.epochs} epochs, AdamW "
                f"{longer.fine_tuning.learning_rate:g}, {len(longer.fine_tuning.seeds)} seeds",
            ),
        ),
    )


def longer_runs(scale: Scale) -> tuple[PlannedRun, ...]:
    """One run per seed."""
    grammar, longer, sizes = scale.grammar, scale.longer, scale.sizes
    steps, task = longer.checkpoint_steps, grammar.tasks[1]
    fine_tuning = FineTuningQuantity(
        task, longer.train, longer.validation, longer.test, longer.fine_tuning, sizes.seed + 3
    )
    noise = scale.flatness.noise(sizes.seed + 2)
    quantities = (sizes.loss(), sizes.trace(), sizes.probe_of(task), fine_tuning, noise)
    return tuple(
        PlannedRun(
            name=f"seed-{seed}",
            language=grammar.language,
            architecture=grammar.architectures[scale.compared.size],
            update_rule=grammar.update_rule,
            steps=longer.steps,
            batch_size=grammar.batch_size,
            seed=seed,
            checkpoint_steps=steps,
            saturated_from=grammar.saturated_from,
            measured=tuple(MeasuredAt(quantity, steps) for quantity in quantities),
            averaging_horizon=grammar.averaging_horizon,
        )
        for seed in longer.own_seeds or scale.seeds
    )


def _panels(table: pl.DataFrame, scale: Scale) -> tuple[Panel, ...]:
    every = table.filter(pl.col("step").is_not_null())
    ending = scale.grammar.steps
    seeds, tuned = len(scale.sizes.probe.seeds), len(scale.longer.fine_tuning.seeds)
    caption = (
        f"One line per run. The dashed line is at step {ending:,}, where the other runs end. Bars of "
        f"accuracies: one standard deviation over {seeds} seeds of the probe, {tuned} of fine-tuning; all "
        "other bars: one standard error over sentences."
    )
    of_steps = tuple(Lines(STEP, y, BY_SEED, "run", marked=ending) for y in (KL, ACCURACY, FINE_TUNED, TRACE))
    rises = tuple(Lines(STEP, _rise(noise), BY_SEED, "run", marked=ending) for noise in scale.flatness.noises)
    of_noise = (
        "Rise of the exact loss when Gaussian noise is added to the weights, with σ times the standard "
        "deviation that each tensor had before pre-training. Bars: one standard error over draws, each on "
        "its own sentences."
    )
    return (
        Panel("steps", "Far past saturation", caption, of_steps, every),
        Panel("noise", "Sensitivity to noise on the weights", of_noise, rises, every),
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
        f"per doubling of steps from {usual_end:,} on",
    )
    return (
        Claim(
            name="longer-is-better-by-probe",
            sentence="Training on far past saturation goes on improving a linear probe.",
            paper="accuracy “continues increasing” after the loss has converged (Section 2.3, Figure 2)",
            measure=f"{slope} the probe's accuracy {since}",
            unit="percent points per doubling",
            claimed=above(0.0),
            statistic=_since(usual_end, in_points("accuracy")),
        ),
        Claim(
            name="longer-is-flatter",
            sentence="Training on far past saturation goes on making the minimum flatter.",
            paper="the trace falls with SGD's noise as long as training goes on (Theorem 3.3, Figure 4)",
            measure=f"{slope} log2(trace) {since}",
            unit="doublings per doubling",
            claimed=below(0.0),
            statistic=_since(usual_end, in_doublings("trace")),
        ),
        Claim(
            name="longer-harms-fine-tuning",
            sentence="Training on far past saturation makes the model worse after fine-tuning.",
            paper=f"{OVER_TRAINED} are worse after fine-tuning",
            measure=f"{slope} the accuracy after fine-tuning {since}",
            unit="percent points per doubling",
            claimed=below(0.0),
            statistic=_since(usual_end, in_points("fine_tuned")),
        ),
        Claim(
            name="longer-is-more-sensitive",
            sentence="Training on far past saturation makes the loss more sensitive to noise on the weights.",
            paper=f"{OVER_TRAINED} are more sensitive to Gaussian noise",
            measure=f"{slope} log2 of the loss's rise under noise {since}",
            unit="doublings per doubling",
            claimed=above(0.0),
            statistic=_since(usual_end, in_doublings(rise)),
        ),
    )
