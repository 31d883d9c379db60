"""The drift along SGD: one clock for all learning rates and batches, and what stays and falls in its time."""

from dataclasses import replace
from functools import partial

import polars as pl

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.drift_exponents import OverFalls, batch_exponent, bend, rate_exponent
from isoloss.experiments.drift_panels import drift_panels, leaving_panels
from isoloss.experiments.drift_runs import DriftRuns, Measured, every_drift_run
from isoloss.experiments.drift_statistics import (
    change_of_loss,
    distance_between_schedules,
    excess_loss,
    halvings_of_trace,
    points_per_halving,
    share_that_falls_without_noise,
    speed_over_theory,
)
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.languages import ReadyLanguage, second_grammar, third_grammar
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import STABLE_RATE, RelativeSchedule
from isoloss.experiments.shared.claims import premise_of_loss
from isoloss.experiments.shared.language_runs import at_scales, rounds_at, seeds_at
from isoloss.experiments.statistics.along_runs import MedianOverSeeds
from isoloss.results.verdict import Region, above, below, within

NO_CLOCK = "none: the theorem is about the limit η → 0, and the paper shows one rate and batch"
POWERS = "of steps ∝ η^-a B^b, by least squares on log2 of the steps to half of the fall that all schedules"

CLAIMS = (
    premise_of_loss(
        "loss-stands",
        sentence="The loss does not change along SGD.",
        paper="“after the validation pre-training loss converges” (Section 4)",
        measure=(
            "largest change of a schedule's exact loss since the start, by medians over seeds, over the "
            "median loss at the start"
        ),
        bound=0.005,
        statistic=partial(change_of_loss, centre=pl.Expr.median),
        reason="four times the spread of the paper's losses: each schedule settles at a loss of its own",
    ),
    Claim(
        name="trace-falls",
        sentence="The trace of the Hessian falls along SGD.",
        paper="“a clear decreasing trend” (Section 4; no number given)",
        measure="mean over schedules of the median of log2(trace at the start / at the last checkpoint)",
        unit="halvings of the trace",
        claimed=above(0.25),
        statistic=partial(halvings_of_trace, clock=RelativeSchedule, centre=pl.Expr.median),
        reason="a sixth of the trace, which is several times its error",
    ),
    Claim(
        name="one-clock",
        sentence="Runs of all learning rates and batches lie on one curve over τ = η²k / 4B.",
        paper=NO_CLOCK,
        measure=(
            "largest distance between two schedules' medians of log2(trace / the start's trace) at one τ, "
            "over the mean fall at the last τ; of the models where it is largest"
        ),
        unit="of the trace's fall apart",
        claimed=below(0.25),
        statistic=partial(distance_between_schedules, clock=RelativeSchedule, centre=pl.Expr.median),
        reason="without the clock the schedules would be apart by about the whole fall",
    ),
    Claim(
        name="rate-exponent",
        sentence="The number of steps to a given fall of the trace scales roughly as η^-2.",
        paper=NO_CLOCK,
        measure=f"a {POWERS} of a seed reach, and to all of it; median over seeds",
        unit="",
        claimed=Region(1.5, 2.5),
        statistic=MedianOverSeeds(OverFalls(rate_exponent)),
        reason="half of the distance from descent without noise, whose steps scale as η^-1",
    ),
    Claim(
        name="batch-exponent",
        sentence=(
            "At a given learning rate, the number of steps to a given fall of the trace scales roughly as B."
        ),
        paper=NO_CLOCK,
        measure=f"b {POWERS} of a seed reach, and to all of it; median over seeds",
        unit="",
        claimed=Region(0.5, 1.5),
        statistic=MedianOverSeeds(OverFalls(batch_exponent)),
        reason="half of the distance from a law without the batch, such as AdamW's",
    ),
    Claim(
        name="resistance",
        sentence="The exponent of B is larger for deeper falls of the trace: the loss resists the drift.",
        paper=NO_CLOCK,
        measure=f"b {POWERS} of a seed reach, subtracted from b of all of it; median over seeds",
        unit="",
        claimed=above(0.0),
        statistic=MedianOverSeeds(OverFalls(batch_exponent, deepening=True)),
    ),
    Claim(
        name="finite-steps",
        sentence="At a given η/B, steps scale as 1/η, more closely the smaller the learning rate.",
        paper=NO_CLOCK,
        measure=(
            "exponent of 1/η, of the steps to half and to all of the fall that all schedules reach, at equal "
            "η/B: between the two highest rates, minus that between the two lowest; mean over the ratios η/B "
            "and the languages, then median over seeds"
        ),
        unit="",
        claimed=above(0.0),
        statistic=MedianOverSeeds(OverFalls(bend)),
    ),
    Claim(
        name="speed",
        sentence="The trace falls as fast as its gradient predicts, to within a factor of two.",
        paper="dθ/dt = -(1/4B) ∇_Γ Tr ∇²L (Theorem 3.3; not compared with runs of a language model)",
        measure=(
            "log2 of -dTr/dτ as measured along the first schedule, at the second checkpoint (Tr/τ times the "
            "slope of log Tr over log τ from the first to the third), over ∇Tr · exp(-ηk F) ∇Tr of that "
            "checkpoint, F the Fisher information; median over seeds"
        ),
        unit="doublings from the prediction",
        claimed=within(1.0),
        statistic=MedianOverSeeds(speed_over_theory),
        reason="a factor of two: the theory is of first order in η and assumes a gap between curvatures",
    ),
    Claim(
        name="no-noise-no-fall",
        sentence="Without gradient noise the trace hardly falls.",
        paper="the drift is the gradient noise's (Theorem 3.3; no number given)",
        measure=(
            "halvings of the trace of the control over those of the run with noise that has the same "
            "learning rate and number of steps; of medians over seeds, mean over languages"
        ),
        unit="of the fall with noise",
        claimed=below(0.5),
        statistic=partial(share_that_falls_without_noise, clock=RelativeSchedule, centre=pl.Expr.median),
        reason="it would be 1 if the descent needed no noise",
    ),
    Claim(
        name="excess-loss",
        sentence="Gradient noise adds η Tr H / 4B to the loss.",
        paper="none: what a quadratic loss and noise of covariance H / B give",
        measure=(
            "log2 of (loss of raw weights - of averaged ones) over η Tr H / 4B, sums over checkpoints; "
            "median over seeds"
        ),
        unit="doublings from the prediction",
        claimed=within(0.5),
        statistic=MedianOverSeeds(excess_loss),
        reason="within a factor of √2",
    ),
    Claim(
        name="flatter-is-better",
        answers=Question.FLATNESS,
        sentence="As the trace halves along SGD, accuracy rises by two percentage points.",
        paper="+1.6 and +4.0 percentage points as the trace falls (Section 4)",
        measure="gain of accuracy from start to last checkpoint over halvings of the trace; median of seeds",
        unit="percentage points per halving of the trace",
        claimed=above(2.0),
        statistic=MedianOverSeeds(points_per_halving),
        reason="about the gain of the paper's runs",
    ),
)
"""docs/pilots.md has why these bounds."""


SMOKE = DriftRuns(
    widths=(16,),
    schedules=(RelativeSchedule(1.0, 8), RelativeSchedule(0.5, 8)),
    times=(0.2, 0.4, 0.8),
    control_checkpoints=2,
    rate_sentences=8,
)

HOT, COLD = 64, 192
"""B / r of the two kinds of schedule, r being the share of the stable rate: the loss rises with r / B."""

SIX = tuple(
    RelativeSchedule(share, round(share * ratio)) for ratio in (HOT, COLD) for share in (1.0, 0.5, 0.25)
)
"""Three rates, each with two batches: so that the exponents of η at one η / B, and of B at one η, are
independent. η²/B differ twelvefold."""

LAPTOP = DriftRuns(
    widths=(32,),
    schedules=SIX,
    times=(0.3, 1.0, 2.5, 6.0, 16.0),
    control_checkpoints=3,
    control_factor=16,
    rate_sentences=320,
)
"""To one time, a schedule takes as many sentences as (B / r)²; docs/pilots.md has why these."""

NIGHT = replace(
    LAPTOP,
    times=(*LAPTOP.times, 40.0),
    rate_sentences=1000,
    other_languages=(
        ("second grammar", ReadyLanguage(second_grammar())),
        ("third grammar", ReadyLanguage(third_grammar())),
    ),
)
"""Three languages, the others by the schedules with much noise alone, and for two and a half times as long.
docs/pilots.md has why."""

PAPER = replace(
    LAPTOP,
    widths=(512, 1024),
    schedules=tuple(replace(schedule, batch_size=8 * schedule.batch_size) for schedule in SIX),
    rate_sentences=1000,
)
"""The paper's rate and batch (B.2: 1e-3 and 4,096) reach τ = 7e-6 in its 120,000 steps. No pilot has been run
at this scale."""

AT = at_scales(SMOKE, LAPTOP, NIGHT, replace(PAPER, widths=(128, 192)), PAPER)


def drift(scale: Scale, settings: DriftRuns) -> Experiment:
    """Theorem 3.3's clock: schedules of SGD, and a control without noise, from AdamW's last checkpoints."""
    loss, trace, probe = scale.followed
    measured = Measured((loss, trace), (scale.sizes.loss(),), (probe,), (STABLE_RATE,))
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
            "curve over τ, and the steps to a given fall of the trace scale as η^-2 B.",
            "Plain SGD starts from each of AdamW's last checkpoints: no momentum, weight decay, warm-up or "
            "dropout. Its rate is a share of η* = 2 / (λ + (λ + Tr) / 4), up to which SGD in batches of four "
            "is stable, with λ and Tr the largest eigenvalue and the trace of the Hessian where it starts: "
            "one rule for every language, model and seed. Trace and loss are those of weights averaged over "
            "the last steps; an average counts as being at the mean of its steps, and τ is computed from "
            "that. The control has the learning rate and number of steps of one of the runs, and a batch so "
            "large that hardly any noise is left. Claims are about medians over seeds, so that a run that "
            "leaves its minimum decides nothing; the last panel names such runs.",
        ),
        runs=every_drift_run(scale, settings, measured),
        claims=CLAIMS,
        panels=lambda table: (*drift_panels(table), *leaving_panels(table)),
        paper_numbers=(("gain as the trace falls along SGD", "1.6 (PCFG), 4.0 (HMM) percentage points"),),
    )


EXPERIMENT = Design(
    lambda scale: drift(scale, AT[scale.name]),
    caution=(
        "The exponents of η and B are of one grammar: at night the two others have three schedules each, too "
        "few to tell the two apart. Fits to half and to all of the fall are separate, and leave out "
        "schedules that are past that fall at their first checkpoint; of the shipped runs none is."
    ),
    registered="b3601f09ccc695dac1eb841d72f4768839fe710a",
    seeds=seeds_at(laptop="651-656", night="751-770"),
    earlier_seeds=rounds_at(laptop="111-115; 171-175", night="241-250; 251-260"),
    takes_a_language=True,
    picture=Picture("clock-grammar-32", "Trace of the Hessian over the drift's time"),
    headline="one-clock",
)
