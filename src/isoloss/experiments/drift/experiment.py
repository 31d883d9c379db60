"""The drift as an experiment of its own, and its short form, which stands beside Figure 1."""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.drift.claims import CLAIMS, IN_SHORT
from isoloss.experiments.drift.panels import drift_panels
from isoloss.experiments.drift.runs import PART, DriftRuns, drift_runs
from isoloss.experiments.experiment import Experiment, Facts, Question
from isoloss.experiments.figure_1 import figure_1
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.scales.scale import Scale
from isoloss.panels import Panel

HEADLINE = "grammar"
"""What the scale's own grammar is called where there are several languages."""


def drift(scale: Scale, task: str) -> Experiment:
    """Theorem 3.3's clock: paces of SGD, and a control without noise, from AdamW's last checkpoints.

    `task` is what the probe is trained for.
    """
    return Experiment(
        name="drift",
        title="Does SGD drift to flatter minima by one clock?",
        question=Question.THEORY,
        text=(
            "Theorem 3.3: where the loss is minimal, SGD with learning rate η and batches of B moves along "
            "the minima against the gradient of the trace of the Hessian, dθ/dτ = -∇_Γ Tr ∇²L, and its clock "
            "is τ = η²k / 4B. So runs that differ in η, B and the number of steps k must lie on one curve "
            "over τ, and at one η and k a batch four times as large goes a quarter as far.",
            "From each of AdamW's last checkpoints plain SGD starts: no momentum, weight decay, warm-up or "
            "dropout. Trace, loss and accuracy are those of weights averaged over the last steps; an average "
            "is as old as its mean step, and so is its τ. The control has the learning rate and the steps of "
            "one of the runs and so large a batch that hardly any noise is left.",
        ),
        runs=every_drift_run(scale, scale.drift, task),
        claims=CLAIMS,
        panels=drift_panels,
        pilot_seeds=scale.pilot_seeds,
        settings=_facts(scale, scale.drift, task),
        paper_numbers=(("gain as the trace falls along SGD", "1.6 (PCFG), 4.0 (HMM) percent points"),),
    )


def every_drift_run(scale: Scale, settings: DriftRuns, task: str) -> tuple[PlannedRun, ...]:
    """The runs on the scale's grammar and on the settings' other languages."""
    sizes = scale.sizes
    quantities = (sizes.loss(), sizes.trace(), sizes.probe_of(task))
    languages = ((HEADLINE, scale.grammar.language), *settings.other_languages)
    return tuple(
        replace(
            run,
            name=run.name if language == HEADLINE else f"{language.replace(' ', '-')}-{run.name}",
            labels=(("language", language), *run.labels),
        )
        for language, plan in languages
        for run in drift_runs(
            settings, replace(scale.grammar, language=plan), scale.seeds, quantities, sizes.loss()
        )
    )


def _facts(scale: Scale, settings: DriftRuns, task: str) -> Facts:
    paces = "; ".join(f"{pace}, {settings.steps(pace)[-1]:,} steps" for pace in settings.paces)
    control = f"{settings.control}, {settings.control_steps[-1]:,} steps"
    return (
        ("start", f"AdamW's checkpoint of step {scale.grammar.steps:,}, widths {settings.widths}"),
        ("SGD", f"{paces}; constant rate; no momentum, weight decay or dropout"),
        ("control", control),
        ("average", "the last 40 / η steps, 200 at least: of the mean, then exponential"),
        ("downstream task", task),
        ("linear probe", f"{scale.sizes.probe_train:,} training, {scale.sizes.probe_test:,} test sentences"),
        ("measurement seed", str(scale.sizes.seed)),
    )


def figure_1_and_drift(scale: Scale, task: str) -> Experiment:
    """Figure 1, and from its models the drift in short: where flatness comes from, in the same minutes."""
    return with_drift(figure_1(scale, task), scale, task)


def with_drift(experiment: Experiment, scale: Scale, task: str) -> Experiment:
    """The experiment with the runs, claims and panels of the drift in short after its own.

    Either's claims and panels look at its own runs alone.
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
        return claim.statistic([run for run in map(apart, runs) if not run.is_empty()])

    return replace(claim, statistic=statistic)


def apart(table: pl.DataFrame) -> pl.DataFrame:
    """The rows that have no part in the drift."""
    return table.filter(pl.col(PART).is_null()) if PART in table.columns else table
