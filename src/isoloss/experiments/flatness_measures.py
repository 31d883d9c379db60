"""Beyond the paper: which measure of flatness ranks downstream accuracy best."""

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from isoloss.experiments.axes import ACCURACY, TRACE
from isoloss.experiments.captions import probe_bars
from isoloss.experiments.experiment import Experiment, Question
from isoloss.experiments.experiment_table import judged_runs
from isoloss.experiments.flatness_measures_claims import CLAIMS, GIVEN, OURS
from isoloss.experiments.grammar_runs import grammar_runs
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.quantity import MeasuredAt, Quantity
from isoloss.experiments.rank_correlation_table import rank_correlation_table
from isoloss.experiments.rule_runs import ADAMW, rule_runs
from isoloss.experiments.scale import Scale
from isoloss.panels import Axis, Categories, Colour, Dots, Panel, Table

RULE, COEFFICIENT = Colour("rule", "update rule"), Colour("coefficient", "coefficient")
VALUE = Axis("value", "rank correlation with accuracy", "standard_error")
RANKS = (
    Axis("measure", "measure"),
    Axis("coefficient", "coefficient"),
    Axis("value", "value"),
    Axis("low", "from"),
    Axis("high", "to"),
    Axis("checkpoints", "checkpoints"),
    Axis("seeds", "seeds"),
)


def flatness_measures(scale: Scale) -> Experiment:
    """Every measure on the saturated checkpoints of Figure 1's runs, and of the other rules' at one size."""
    return Experiment(
        name="flatness-measures",
        title="Which measure of flatness ranks accuracy best?",
        question=Question.FLATNESS,
        text=(
            "The paper measures flatness by the trace of the Hessian. Others have measured it otherwise: by "
            "the Hessian's largest eigenvalue, by how much the loss rises a little way along its gradient "
            "(SAM), by the gradient's norm, by traces that do not change when layers are rescaled. Each "
            "ranks the saturated checkpoints of all sizes, and of all update rules at one size, and is held "
            "against how they rank downstream.",
            "Coefficients are 1 where the least of the measure goes with the best accuracy throughout. Those "
            "given loss and parameters compare checkpoints alike in both.",
        ),
        runs=_runs(scale),
        claims=CLAIMS,
        panels=lambda table: _panels(table, scale),
        pilot_seeds=scale.pilot_seeds,
        settings=(
            ("downstream task", scale.grammar.tasks[1]),
            ("sentences, trace", f"{scale.sizes.trace_sentences:,}"),
            ("sentences, normalised traces", f"{scale.flatness.trace_sentences:,}"),
            ("sentences, top eigenvalue", f"{scale.flatness.eigenvalue_sentences:,}"),
            ("sentences, gradient norm", f"{scale.flatness.gradient_sentences:,}"),
            ("sentences, SAM", f"{scale.flatness.ascent_sentences:,}"),
        ),
        paper_numbers=(("rank correlations", f"none: {OURS}"),),
    )


def _runs(scale: Scale) -> tuple[PlannedRun, ...]:
    """The grammar's runs and the rules', labelled by rule and width, measured after saturation."""
    grammar, compared, sizes = scale.grammar, scale.compared, scale.sizes
    probe, competitors = sizes.probe_of(grammar.tasks[1]), scale.flatness.competitors(sizes.seed + 2)
    quantities: tuple[Quantity, ...] = (sizes.loss(), sizes.trace(), probe, *competitors)
    steps = tuple(step for step in grammar.checkpoint_steps if step >= grammar.saturated_from)
    width = grammar.architectures[compared.size].shape.width
    own = grammar_runs(scale, tuple(MeasuredAt(quantity, steps) for quantity in quantities))
    others = rule_runs(scale, compared.peers, quantities, since=compared.saturated_from)
    return (
        *(replace(run, labels=(("rule", ADAMW), *run.labels)) for run in own),
        *(replace(run, labels=(*run.labels, ("width", width))) for run in others),
    )


def _panels(table: pl.DataFrame, scale: Scale) -> tuple[Panel, ...]:
    runs = judged_runs(table)
    of_sizes = [run for run in runs if run["rule"][0] == ADAMW]
    columns = scale.flatness.competing_columns
    ranked = (
        ("sizes-and-steps", "Over sizes and steps (AdamW)", of_sizes),
        ("rules-too", "Over sizes, steps and update rules", runs),
    )
    return (
        *(ranking_panel(name, title, of, columns) for name, title, of in ranked if of),
        *([_measures_panel(runs, columns, scale)] if runs else []),
    )


def ranking_panel(name: str, title: str, runs: Sequence[pl.DataFrame], columns: Sequence[str]) -> Panel:
    """How the trace, the columns and the loss rank the accuracy of the runs' checkpoints."""
    caption = (
        "Intervals of 95 % each, over seeds as clusters, on Fisher's scale; bars in the picture are one "
        "standard error. The loss is there for comparison."
    )
    charts = (Categories("measure", VALUE, COEFFICIENT), Table(RANKS))
    ranks = rank_correlation_table(runs, ["trace", *columns, "loss"], given=GIVEN)
    return Panel(name, title, caption, charts, ranks)


def _measures_panel(runs: Sequence[pl.DataFrame], columns: Sequence[str], scale: Scale) -> Panel:
    axes = [Axis(name, name.replace("_", " "), f"{name}_error", logarithmic=True) for name in columns]
    return Panel(
        "measures",
        "Each measure against accuracy",
        f"Checkpoints after saturation. Across: one standard error. {probe_bars(scale.sizes)}",
        tuple(Dots(axis, ACCURACY, RULE) for axis in (TRACE, *axes)),
        pl.concat(runs, how="diagonal_relaxed"),
    )
