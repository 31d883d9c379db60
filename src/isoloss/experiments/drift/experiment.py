"""The drift as an experiment of its own, and its short form, which stands beside Figure 1."""

from dataclasses import replace

from isoloss.experiments.drift.claims import CLAIMS
from isoloss.experiments.drift.panels import drift_panels
from isoloss.experiments.drift.runs import DriftRuns, drift_runs
from isoloss.experiments.experiment import Experiment, Facts, Question
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.scale import Scale

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
