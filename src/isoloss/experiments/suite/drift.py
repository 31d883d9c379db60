"""The drift along SGD: one clock for all learning rates and batches, and what stays and falls in its time."""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from isoloss.experiments.branches import PART
from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.drift_panels import drift_panels, example_panels
from isoloss.experiments.drift_runs import DRIFT_RUNS, DriftRuns, every_drift_run
from isoloss.experiments.drift_statistics import (
    change_of_loss,
    distance_between_schedules,
    excess_loss,
    halvings_of_trace,
    lag_of_larger_batches,
    points_per_halving,
    share_that_falls_without_noise,
    speed_over_theory,
)
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import schedules
from isoloss.panels import Panel
from isoloss.results.verdict import above, below, within

NO_CLOCK = "none: the theorem is about the limit η → 0, and the paper shows one rate and batch"

CLAIMS = (
    Claim(
        name="loss-stands",
        answers=Question.LOSS,
        sentence="Along SGD the loss stays what it is.",
        paper="“after the validation pre-training loss converges” (Section 4)",
        measure="largest change of a pace's mean exact loss since the start, over the loss at the start",
        unit="",
        claimed=below(0.005),
        statistic=change_of_loss,
        kind="premise",
        reason="four times the window of the paper's losses: each pace settles at a loss of its own",
    ),
    Claim(
        name="trace-falls",
        answers=Question.THEORY,
        sentence="Along SGD the trace of the Hessian falls.",
        paper="“a clear decreasing trend” (Section 4; no number given)",
        measure="mean over paces of log2(trace at the start / at the last checkpoint)",
        unit="halvings",
        claimed=above(0.25),
        statistic=halvings_of_trace,
        reason="a sixth of the trace, several times its error",
    ),
    Claim(
        name="one-clock",
        answers=Question.THEORY,
        sentence="Runs of all learning rates and batches lie on one curve over τ = η²k / 4B.",
        paper=NO_CLOCK,
        measure=(
            "largest distance between two paces' mean log2 trace at one τ, over the mean fall at the last τ; "
            "of the models where it is largest"
        ),
        unit="of the fall",
        claimed=below(0.25),
        statistic=distance_between_schedules,
        reason="without the clock the paces would be apart by about the whole fall",
    ),
    Claim(
        name="quarter-speed",
        sentence="At one learning rate and step a batch four times as large has drifted a quarter as far.",
        paper=NO_CLOCK,
        measure=(
            "mean log2 of the steps that the larger batch takes to a trace over those of the smaller, less "
            "2; pairs of paces of one learning rate with batches of B and 4B"
        ),
        unit="doublings",
        claimed=within(0.5),
        statistic=lag_of_larger_batches,
        reason="without noise in the law it would be -2",
    ),
    Claim(
        name="speed",
        sentence="The trace falls as fast as its own gradient says, to within a factor of two.",
        paper="dθ/dt = -(1/4B) ∇_Γ Tr ∇²L (Theorem 3.3; not compared with runs of a language model)",
        measure=(
            "log2 of -dTr/dτ as measured along the first pace, at the second checkpoint, over ∇Tr · "
            "exp(-ηk F) ∇Tr of that checkpoint, F the Fisher information; sums over runs"
        ),
        unit="doublings",
        claimed=within(1.0),
        statistic=speed_over_theory,
        reason="a factor of two: first order in η, and curvatures without a gap",
    ),
    Claim(
        name="no-noise-no-fall",
        answers=Question.THEORY,
        sentence="Without the noise the trace does not fall.",
        paper="the drift is the gradient noise's (Theorem 3.3; no number given)",
        measure="halvings of the control's trace over those of its twin: one learning rate, as many steps",
        unit="of the twin's fall",
        claimed=below(0.5),
        statistic=share_that_falls_without_noise,
        reason="descent that needs no noise would make them equal",
    ),
    Claim(
        name="excess-loss",
        answers=Question.THEORY,
        sentence="What noise adds to the loss is η Tr H / 4B.",
        paper="none: what a quadratic loss and noise of covariance H / B give",
        measure="log2 of (loss of raw weights - of averaged ones) over η Tr H / 4B, sums over checkpoints",
        unit="doublings",
        claimed=within(0.5),
        statistic=excess_loss,
        reason="within a factor of √2",
    ),
    Claim(
        name="flatter-is-better",
        answers=Question.FLATNESS,
        sentence="As the trace halves along SGD, accuracy rises by two points.",
        paper="+1.6 and +4.0 percentage points as the trace falls (Section 4)",
        measure="gain of accuracy from start to last checkpoint over halvings of the trace; sums of runs",
        unit="percentage points a halving",
        claimed=above(2.0),
        statistic=points_per_halving,
        reason="about what the paper's runs gain",
    ),
)
"""The bounds were fixed on runs with pilot seeds. Without the clock, two paces whose η²/B differ fourfold are
half of the fall apart and more."""

IN_SHORT = tuple(claim for claim in CLAIMS if claim.name not in ("quarter-speed", "speed"))
"""Those that the short form can answer: none of its paces differ by the batch alone, and no speed is
predicted."""


def drift(scale: Scale, settings: DriftRuns) -> Experiment:
    """Theorem 3.3's clock: paces of SGD, and a control without noise, from AdamW's last checkpoints."""
    task = scale.grammar.tasks[1]
    if scale.language_given:
        settings = replace(settings, other_languages=())
    return Experiment(
        name="drift",
        gallery=1,
        title="Does SGD drift to flatter minima by one clock?",
        question=Question.THEORY,
        text=(
            "Theorem 3.3: where the loss is minimal, SGD with learning rate η and batch size B moves along "
            "the minima against the gradient of the trace of the Hessian, dθ/dτ = -∇_Γ Tr ∇²L, and its clock "
            "is τ = η²k / 4B. Runs that differ in η, B and the number of steps k must therefore lie on one "
            "curve over τ; at the same η and k, a batch four times as large goes a quarter as far.",
            "Plain SGD starts from each of AdamW's last checkpoints: no momentum, weight decay, warm-up or "
            "dropout. Trace, loss and accuracy are those of weights averaged over the last steps; an average "
            "counts as being at the mean of its steps, and τ is computed from that. The control has the "
            "learning rate and number of steps of one of the runs, and a batch so large that hardly any "
            "noise is left.",
        ),
        runs=every_drift_run(scale, settings, task, scale.sizes.probes_beside(task)),
        claims=CLAIMS,
        panels=lambda table: (
            *drift_panels(table),
            *example_panels(table, scale.sizes.fewer_examples, scale.sizes.probe_train),
        ),
        paper_numbers=(("gain as the trace falls along SGD", "1.6 (PCFG), 4.0 (HMM) percentage points"),),
    )


def with_drift(experiment: Experiment, scale: Scale, settings: DriftRuns) -> Experiment:
    """The experiment with the runs, claims and panels of the short drift after its own.

    The claims and panels of either look only at its own runs.
    """

    def every_panel(table: pl.DataFrame) -> tuple[Panel, ...]:
        return (*experiment.panels(apart(table)), *drift_panels(table))

    return replace(
        experiment,
        runs=(*experiment.runs, *every_drift_run(scale, settings.in_short, scale.grammar.tasks[1])),
        claims=(*map(of_others, experiment.claims), *IN_SHORT),
        panels=every_panel,
    )


def of_others(claim: Claim) -> Claim:
    """The claim, judged on the runs that have no part in the drift."""

    def statistic(runs: Sequence[pl.DataFrame]) -> float:
        # The frames themselves, by whose identity statistics remember what they have computed.
        return claim.statistic([run for run in runs if PART not in run.columns or run[PART][0] is None])

    return replace(claim, statistic=statistic)


def apart(table: pl.DataFrame) -> pl.DataFrame:
    """The rows that have no part in the drift."""
    return table.filter(pl.col(PART).is_null()) if PART in table.columns else table


EXPERIMENT = Design(
    lambda scale: drift(scale, DRIFT_RUNS[scale.name]),
    registered="443864760435bf2251e1dfb5e00d411cf83d1d99",
    earlier_seeds={"laptop": ((111, 112, 113, 114, 115),), "night": (tuple(range(241, 251)),)},
    takes_a_language=True,
    with_rates=lambda scale, text: drift(scale, replace(DRIFT_RUNS[scale.name], schedules=schedules(text))),
    picture=Picture("clock-grammar-32", "Trace of the Hessian and accuracy over the drift's time"),
)
