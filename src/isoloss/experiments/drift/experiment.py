"""The experiments on the drift: SGD's clock, where it fails, and AdamW's."""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.drift import adamw_clock as adamw
from isoloss.experiments.drift import interventions as ways
from isoloss.experiments.drift.claims import CLAIMS, IN_SHORT
from isoloss.experiments.drift.departures import HEADLINE, PART, departed, of_language
from isoloss.experiments.drift.limits import BAND, limit_arms, limit_panels
from isoloss.experiments.drift.panels import drift_panels, example_panels
from isoloss.experiments.drift.runs import DriftRuns, drift_runs, plain
from isoloss.experiments.experiment import Experiment, Facts, Question
from isoloss.experiments.figures.figure_1 import figure_1
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.scales.scale import Scale
from isoloss.measurements.on_sentences.root_fisher import RootFisherQuantity
from isoloss.measurements.quantities.adapted_probe import standardised
from isoloss.measurements.quantity import AnyQuantity
from isoloss.measurements.sample_efficiency import SampleEfficiencyQuantity
from isoloss.panels import Panel

LIMIT_SEEDS = 3
"""Number of the drift's seeds, from the first, that the experiment on the clock's limits uses."""


def drift(scale: Scale, task: str) -> Experiment:
    """Theorem 3.3's clock: paces of SGD, and a control without noise, from AdamW's last checkpoints.

    `task` is the probe's task.
    """
    return Experiment(
        name="drift",
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
        runs=every_drift_run(scale, scale.drift, task, scale.sizes.probes_beside(task)),
        claims=CLAIMS,
        panels=lambda table: (
            *drift_panels(table),
            *example_panels(table, scale.sizes.fewer_examples, scale.sizes.probe_train),
        ),
        pilot_seeds=scale.pilot_seeds,
        settings=_facts(scale, scale.drift, task),
        paper_numbers=(("gain as the trace falls along SGD", "1.6 (PCFG), 4.0 (HMM) percent points"),),
    )


def every_drift_run(
    scale: Scale, settings: DriftRuns, task: str, at_the_ends: Sequence[AnyQuantity] = ()
) -> tuple[PlannedRun, ...]:
    """The runs on the scale's grammar and on the settings' other languages; see `drift_runs`."""
    sizes, short = scale.sizes, settings.in_short
    quantities = (sizes.loss(), sizes.trace(), sizes.probe_of(task))
    parts = (
        (HEADLINE, scale.grammar.language, settings),
        *((language, plan, short) for language, plan in settings.other_languages),
    )
    return tuple(
        of_language(run, language)
        for language, plan, drift in parts
        for run in drift_runs(
            drift,
            replace(scale.grammar, language=plan),
            settings.own_seeds or scale.seeds,
            quantities,
            sizes.loss(),
            at_the_ends,
        )
    )


def drift_limits(scale: Scale) -> Experiment:
    """The law's curve from a few of the drift's own runs, and the arms from the same starts."""
    short, sizes = scale.drift.in_short, scale.sizes
    seeds = scale.drift.own_seeds or scale.seeds
    quantities = (sizes.loss(), sizes.trace())
    arms = limit_arms(scale.drift.paces[0])
    departures = (
        *(plain(pace, short.steps(pace)) for pace in short.paces),
        *(arm.departure(short.times) for arm in arms),
    )
    return Experiment(
        name="drift-limits",
        question=Question.THEORY,
        title="How far does SGD's clock tell the time?",
        text=(
            "Theorem 3.3 is about small learning rates and about SGD without momentum, weight decay or "
            "dropout. Here each of these is changed on its own, from the starting points of the drift "
            "experiment, and the trace is compared with the curve of plain SGD: over τ = η²k / 4B, with η / "
            "(1 - m) in place of η where there is a momentum m.",
            f"The law is said to hold where the trace never departs from that curve by more than {BAND:g} of "
            "its fall, the tolerance claimed for the drift experiment's own runs. Nothing here is a claim: "
            "the experiment looks for where the law breaks down, and each panel says what was found.",
        ),
        runs=departed(scale.grammar, short.widths, seeds[:LIMIT_SEEDS], departures, quantities),
        panels=limit_panels,
        pilot_seeds=scale.pilot_seeds,
        settings=(
            ("start", f"AdamW's checkpoint of step {scale.grammar.steps:,}, widths {short.widths}"),
            ("plain SGD", "; ".join(map(str, short.paces))),
            *((arm.varied, f"{arm.value}, by the clock of {arm.pace}") for arm in arms),
            ("measurement seed", str(sizes.seed)),
        ),
    )


def adamw_clock(scale: Scale) -> Experiment:
    """AdamW's clock: its paces from common starts, SGD beside them, and settings that the clock ignores."""
    settings, sizes = scale.adamw_clock, scale.sizes
    root = RootFisherQuantity(sizes.trace_sentences, sizes.seed + 2)
    quantities = (sizes.loss(), sizes.trace(), root)
    grammar, width = scale.grammar, (settings.width,)
    arms = tuple(arm.departure(settings.times) for arm in settings.arms)
    few = settings.seeds[: settings.arm_seeds]
    started = departed(grammar, width, settings.seeds, settings.departures, quantities, (sizes.loss(),))
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
        runs=(*started, *departed(grammar, width, few, arms, quantities)[len(few) :]),
        claims=adamw.CLAIMS,
        panels=adamw.adamw_panels,
        pilot_seeds=scale.pilot_seeds,
        settings=(
            ("start", f"AdamW's checkpoint of step {grammar.steps:,}, width {settings.width}"),
            (
                "AdamW",
                "; ".join(f"{pace}, {pace.step_at(settings.times[-1]):,} steps" for pace in settings.paces),
            ),
            ("SGD", f"{settings.sgd}, to τ = {settings.sgd_time:g}"),
            *((arm.varied, f"{arm.value}, {arm.pace}") for arm in settings.arms),
            ("measurement seed", str(sizes.seed)),
        ),
    )


def flatness_interventions(scale: Scale, task: str) -> Experiment:
    """Four ways from one start at the same loss, flatter and sharper, and how a downstream task fares."""
    settings, sizes = scale.interventions, scale.sizes
    probe = sizes.probe_of(task)
    few = SampleEfficiencyQuantity(task, sizes.probe_test, sizes.probe, sizes.seed, ways.EXAMPLES)
    quantities = (sizes.loss(), sizes.trace(), probe, standardised(probe, ways.STANDARDISED), few)
    return Experiment(
        name="flatness-interventions",
        title="Is flatter better where flatness alone is set?",
        question=Question.FLATNESS,
        text=(
            "The paper finds that, among models of the same pre-training loss, flatter ones do better "
            "downstream, and infers that flatness is the reason. Here flatness is set directly: from each of "
            "AdamW's last checkpoints, training continues in four ways, for the same number of steps and to "
            f"the same loss. SGD with noise becomes flatter, by Theorem 3.3. SGD with {settings.quieter} "
            "times the batch, hence hardly any noise, does not. The flatness regulariser descends L + (σ²/2) "
            "Tr H, weighted as the noise of SGD weights it. The same regulariser with its sign reversed "
            "makes the model sharper, as strongly as the pre-training loss allows.",
            "If flatness is the reason, accuracy falls whenever the trace is made to rise, whichever way is "
            "used. The probes are the paper's and one on standardised features; both are also trained on few "
            "examples.",
        ),
        runs=departed(scale.grammar, (settings.width,), settings.seeds, settings.departures, quantities),
        claims=ways.CLAIMS,
        panels=ways.intervention_panels,
        pilot_seeds=scale.pilot_seeds,
        settings=(
            ("start", f"AdamW's checkpoint of step {scale.grammar.steps:,}, width {settings.width}"),
            ("ways", "; ".join(f"{way.arm}, {way.pace}" for way in settings.departures)),
            ("steps", f"{settings.departures[0].steps[-1]:,}"),
            ("noise on weights", f"σ = {settings.noise:.3g}"),
            ("sharpened", str(settings.sharpened)),
            ("downstream task", task),
            ("measurement seed", str(sizes.seed)),
        ),
    )


def _facts(scale: Scale, settings: DriftRuns, task: str) -> Facts:
    paces = "; ".join(f"{pace}, {settings.steps(pace)[-1]:,} steps" for pace in settings.paces)
    control = f"{settings.control}, {settings.control_steps[-1]:,} steps"
    return (
        ("start", f"AdamW's checkpoint of step {scale.grammar.steps:,}, widths {settings.widths}"),
        *_short_facts(settings),
        ("SGD", f"{paces}; constant rate; no momentum, weight decay or dropout"),
        ("control", control),
        ("average", "the last 40 / η steps, 200 at least: of the mean, then exponential"),
        ("downstream task", task),
        ("linear probe", f"{scale.sizes.probe_train:,} training, {scale.sizes.probe_test:,} test sentences"),
        ("measurement seed", str(scale.sizes.seed)),
    )


def _short_facts(settings: DriftRuns) -> Facts:
    languages = ", ".join(language for language, _ in settings.other_languages)
    if not languages:
        return ()
    return (("only by some", f"{languages}: {'; '.join(map(str, settings.in_short.paces))}"),)


def figure_1_and_drift(scale: Scale, task: str) -> Experiment:
    """Figure 1, and the drift in short from its models: where flatness comes from, in the same minutes."""
    return with_drift(figure_1(scale, task), scale, task)


def with_drift(experiment: Experiment, scale: Scale, task: str) -> Experiment:
    """The experiment with the runs, claims and panels of the short drift after its own.

    The claims and panels of either look only at its own runs.
    """

    def every_panel(table: pl.DataFrame) -> tuple[Panel, ...]:
        return (*experiment.panels(apart(table)), *drift_panels(table))

    return replace(
        experiment,
        runs=(*experiment.runs, *every_drift_run(scale, scale.drift.in_short, task)),
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
