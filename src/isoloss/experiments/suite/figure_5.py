"""Figure 5: sizes at almost the same loss, all enlarged to one shape before their traces are compared."""

from dataclasses import dataclass, replace

import polars as pl

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import ACCURACY, BY_WIDTH, KL, TRACE, grammar_task
from isoloss.experiments.planned_run import MeasuredAt
from isoloss.experiments.scale import FRESH_SEEDS, Scale, grammar_runs
from isoloss.experiments.shared.claims import flatter_is_better_at_one_kl
from isoloss.experiments.shared.grammar_and_hmm import GRAMMAR, NIGHT_WIDTHS
from isoloss.experiments.shared.language_runs import at_scales, laptop_transformers, rounds_at
from isoloss.experiments.statistics.across_models import SlopeOverSizes
from isoloss.experiments.statistics.along_runs import MeanOverSeeds, in_doublings
from isoloss.experiments.statistics.rank_correlation import PartialSlope
from isoloss.experiments.suite.figure_3 import AT_ONE_KL
from isoloss.measurements.derived_traces import EnlargedTraceQuantity
from isoloss.models.enlarging import enlargement_between
from isoloss.models.transformers import TABLE_4, PreLayerNormTransformer, Shape, laptop_shape
from isoloss.panels import Axis, Dots, Panel
from isoloss.results.verdict import below

FORMS = ("exact", "paper")
EXACT = Axis("trace_exact", "trace, enlarged (exact form)", "trace_exact_error", logarithmic=True)
PAPERS = Axis("trace_paper", "trace, enlarged (the paper's form)", "trace_paper_error", logarithmic=True)


@dataclass(frozen=True)
class SizeComparison:
    """Architectures trained like the grammar's, and the `common` shape to which each is enlarged.

    `sentences` is the number of sentences for the trace of an enlarged model. Raises BadInput if an
    architecture cannot be enlarged to the common shape.
    """

    architectures: tuple[PreLayerNormTransformer, ...]
    common: Shape
    sentences: int

    def __post_init__(self) -> None:
        for architecture in self.architectures:
            enlargement_between(architecture.shape, self.common)


SMOKE = SizeComparison(
    tuple(PreLayerNormTransformer(laptop_shape(width)) for width in (16, 32)), laptop_shape(32), sentences=16
)

LAPTOP = SizeComparison(laptop_transformers((32, 48)), laptop_shape(96), sentences=300)
"""Figure 1's sizes, whose runs these are; 96 is the least common multiple of their widths."""

NIGHT = SizeComparison(laptop_transformers(NIGHT_WIDTHS), laptop_shape(max(NIGHT_WIDTHS)), sentences=300)
"""Figure 1's sizes again."""

PAPER = SizeComparison(
    tuple(PreLayerNormTransformer(shape) for shape in TABLE_4), TABLE_4[-1], sentences=10_000
)
"""Table 4 (B.3)."""

GPU = SizeComparison(GRAMMAR["gpu"].architectures, Shape(1536, 24, 8, 6144), sentences=500)
AT = at_scales(SMOKE, LAPTOP, NIGHT, GPU, PAPER)


def figure_5(scale: Scale, compared: SizeComparison) -> Experiment:
    """The trace of every size in one parameter space, against accuracy on task B."""
    sizes = scale.sizes
    of_sizes = replace(scale, grammar=replace(scale.grammar, architectures=compared.architectures))
    task = grammar_task(of_sizes, "B")
    steps = task.runs.compared_steps
    exact, paper = (
        EnlargedTraceQuantity(compared.common, form, compared.sentences, sizes.seed + 2)
        for form in ("exact", "paper")
    )
    quantities = (sizes.loss(), sizes.trace(), task.probe(sizes), exact, paper)
    measured = (*(MeasuredAt(quantity, steps) for quantity in quantities), *task.size_probes(sizes))
    return Experiment(
        name="figure-5",
        gallery=2,
        title="Are larger models flatter and better, viewed in one parameter space?",
        question=Question.LARGER,
        text=(
            "Traces of models of different sizes are sums over different parameters. So each model is viewed "
            "as a point in the parameter space of one larger architecture, by placing copies of its weights "
            "side by side and adding layers that do nothing (B.4), and the traces there are compared.",
            "The paper's construction changes the function slightly and multiplies the tied embeddings' part "
            "of the trace by the number of copies k, which is larger for smaller models. A variant that "
            "leaves the function exactly unchanged divides that part by k instead. Both are shown. Where "
            "they disagree about the order of sizes, that order is decided by the construction, not by the "
            "models. Whether larger models do better is judged with Figure 3.",
        ),
        runs=tuple(replace(run, saturated_from=steps[0]) for run in grammar_runs(of_sizes, measured)),
        claims=CLAIMS,
        panels=lambda table: _panels(table, scale, compared),
        paper_numbers=(("trace, 9M to the largest", "19.8 to 12.6"), ("accuracy", "40.4 to 50.5 %")),
    )


def _panels(table: pl.DataFrame, scale: Scale, compared: SizeComparison) -> tuple[Panel, ...]:
    bars = (
        f"Horizontal bars: one standard error over {compared.sentences:,} sentences. Vertical "
        f"bars: one standard deviation over {len(scale.sizes.probe.seeds)} probe seeds. One dot per "
        f"checkpoint from step {scale.grammar.compared_steps[0]:,} on."
    )
    enlarged = (
        "Every model enlarged to one shape. The axis is logarithmic because ratios are what is compared."
    )
    as_is = "The same models' traces over their own parameters, and their losses."
    dots = table.filter(pl.col("step").is_not_null())
    both = tuple(Dots(x, ACCURACY, BY_WIDTH) for x in (EXACT, PAPERS))
    plain = tuple(Dots(x, ACCURACY, BY_WIDTH) for x in (TRACE, KL))
    return (
        Panel(
            "enlarged",
            "Enlarged trace against accuracy",
            f"{enlarged} {bars}",
            both,
            dots,
            shows=tuple(f"larger-is-flatter-{form}" for form in FORMS),
        ),
        Panel("as-they-are", "Own trace and loss against accuracy", f"{as_is} {bars}", plain, dots),
    )


def _larger_is_flatter(form: str, where: str, how: str, slope: SlopeOverSizes) -> Claim:
    return Claim(
        name=f"larger-is-flatter-{form}{where}",
        sentence=f"Enlarged to one shape ({form} form), larger models are flatter {how}.",
        paper="the trace falls from 19.8 to 12.6, 0.65 doublings (Section 4, Figure 5)",
        measure=(
            "mean over seeds of the slope of log2(enlarged trace) per doubling of parameters, each model's "
            f"own; {'all at the last checkpoint' if slope.at_one_step else AT_ONE_KL}"
        ),
        unit="doublings of the trace per doubling of size",
        claimed=below(0.0),
        statistic=MeanOverSeeds(slope),
    )


def _claims(form: str) -> tuple[Claim, ...]:
    """Of one of the forms in which models are enlarged."""
    trace = in_doublings(f"trace_{form}")
    return (
        _larger_is_flatter(form, "", "at the end of training", SlopeOverSizes(trace, at_one_step=True)),
        _larger_is_flatter(form, "-at-one-kl", "at equal KL", SlopeOverSizes(trace)),
        flatter_is_better_at_one_kl(
            f"flatter-is-better-{form}",
            f"Enlarged to one shape ({form} form), flatter models have higher accuracy at equal KL.",
            "the dots of all sizes, with an intercept for each seed",
            PartialSlope("seed", of=f"trace_{form}"),
        ),
    )


CLAIMS = tuple(claim for form in FORMS for claim in _claims(form))


EXPERIMENT = Design(
    lambda scale: figure_5(scale, AT[scale.name]),
    registered="b860d6db0c56933dcc4595d62ae8cdc24ab2fe30",
    seeds=FRESH_SEEDS,
    earlier_seeds=rounds_at(laptop="111-115; 171-175", night="201-210; 241-250"),
    headline="larger-is-flatter-paper",
    caution=(
        "The answer is that of the paper's own form, which changes what the enlarged model computes. It was "
        "put first when results were known; at night larger models are sharper in the exact form at "
        "the end of training, and at equal KL the paper's form decides nothing."
    ),
    picture=Picture("enlarged", "Accuracy over the trace of models of several widths in one parameter space"),
    of_the_paper=True,
)
