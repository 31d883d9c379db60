"""Figure 5: sizes at almost one loss, all enlarged to one shape before their traces are compared."""

from dataclasses import replace

import polars as pl

from isoloss.experiments.axes import ACCURACY, BY_WIDTH, KL, TRACE
from isoloss.experiments.experiment import Experiment, Question
from isoloss.experiments.figure_5_claims import CLAIMS
from isoloss.experiments.grammar_runs import grammar_runs
from isoloss.experiments.quantities.enlarged_trace import EnlargedTraceQuantity
from isoloss.experiments.quantity import MeasuredAt
from isoloss.experiments.scale import Scale
from isoloss.panels import Axis, Dots, Panel

EXACT = Axis("trace_exact", "trace, enlarged (exact form)", "trace_exact_error", logarithmic=True)
PAPER = Axis("trace_paper", "trace, enlarged (the paper's form)", "trace_paper_error", logarithmic=True)


def figure_5(scale: Scale) -> Experiment:
    """The trace of every size in one parameter space, against accuracy on task B."""
    compared, sizes = scale.sizes_compared, scale.sizes
    steps = tuple(step for step in scale.grammar.checkpoint_steps if step >= scale.grammar.saturated_from)
    exact, paper = (
        EnlargedTraceQuantity(compared.common, form, compared.sentences, sizes.seed + 2)
        for form in ("exact", "paper")
    )
    measured = (sizes.loss(), sizes.trace(), sizes.probe_of(scale.grammar.tasks[1]), exact, paper)
    of_sizes = replace(scale, grammar=replace(scale.grammar, architectures=compared.architectures))
    return Experiment(
        name="figure-5",
        title="Are larger models flatter and better, viewed in one parameter space?",
        question=Question.LARGER,
        text=(
            "Traces of models of different sizes are over different parameters. So each model is viewed as a "
            "point in the parameter space of one larger architecture, by setting copies of its weights side "
            "by side and adding layers that do nothing (B.4), and the traces there are compared.",
            "The paper's construction changes the function a little and multiplies the part of the tied "
            "embeddings by the number of copies k, larger for smaller models. A form that leaves the "
            "function exactly as it is divides that part by k instead. Both are shown: where they disagree "
            "about the order of sizes, the construction decides it and not the models.",
        ),
        runs=grammar_runs(of_sizes, tuple(MeasuredAt(quantity, steps) for quantity in measured)),
        claims=CLAIMS,
        panels=lambda table: _panels(table, scale),
        pilot_seeds=scale.pilot_seeds,
        settings=(
            ("enlarged to", f"width {compared.common.width}, {compared.common.layers} layers"),
            ("downstream task", scale.grammar.tasks[1]),
            ("sentences of an enlarged trace", f"{compared.sentences:,}"),
        ),
        paper_numbers=(("trace, 9M to the largest", "19.8 to 12.6"), ("accuracy", "40.4 to 50.5 %")),
    )


def _panels(table: pl.DataFrame, scale: Scale) -> tuple[Panel, ...]:
    bars = (
        f"Across: one standard error over {scale.sizes_compared.sentences:,} sentences. Up and down: one "
        f"standard deviation over {len(scale.sizes.probe.seeds)} seeds of the probe. Each dot is a "
        "checkpoint after the loss has converged."
    )
    enlarged = "Every model enlarged to one shape; a logarithmic axis, as factors are what is compared."
    as_is = "The same models' traces over their own parameters, and their losses."
    dots = table.filter(pl.col("step").is_not_null())
    both = tuple(Dots(x, ACCURACY, BY_WIDTH) for x in (EXACT, PAPER))
    plain = tuple(Dots(x, ACCURACY, BY_WIDTH) for x in (TRACE, KL))
    return (
        Panel("enlarged", "Enlarged trace against accuracy", f"{enlarged} {bars}", both, dots),
        Panel("as-they-are", "Own trace and loss against accuracy", f"{as_is} {bars}", plain, dots),
    )
