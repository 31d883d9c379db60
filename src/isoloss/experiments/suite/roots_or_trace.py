"""The minimiser of AdamW's drift by derivation, Σ √H_ii, beside the trace: which ranks accuracy better?"""

import polars as pl

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import ACCURACY, BY_WIDTH, TRACE, probe_bars
from isoloss.experiments.grammar_runs import grammar_runs
from isoloss.experiments.measured_at import measured_at
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.language_runs import ScaleName
from isoloss.experiments.standard_claims import ASSOCIATION, UNDECIDABLE, WHY_ASSOCIATION
from isoloss.experiments.statistics.along_runs import MeanWithinRuns, Slope, in_doublings
from isoloss.experiments.statistics.rank_correlation import Advantage, Ranking
from isoloss.measurements.on_sentences.root_fisher import RootFisherQuantity
from isoloss.panels import Axis, Dots, Panel
from isoloss.results.verdict import above, below

DERIVED = "none: the paper derives what SGD seeks, the trace, and trains by AdamW"
ROOTS = Axis("root_fisher", "Σ √H_ii (Fisher form)", "root_fisher_error", logarithmic=True)

CLAIMS = (
    Claim(
        name="roots-fall-along-adamw",
        sentence="Within a run of AdamW, after saturation, Σ √H_ii falls.",
        paper=DERIVED,
        measure="mean over runs of the Theil-Sen slope of log2(Σ √H_ii) per doubling of steps",
        unit="doublings per doubling",
        claimed=below(0.0),
        statistic=MeanWithinRuns(Slope(in_doublings("root_fisher"))),
    ),
    Claim(
        name="roots-rank-better-than-trace",
        sentence="Along runs of AdamW Σ √H_ii ranks downstream accuracy better than the trace.",
        paper=DERIVED,
        measure=(
            "mean over runs of Spearman(−Σ √H_ii, accuracy) minus Spearman(−trace, accuracy) over the run's "
            "dots"
        ),
        unit="",
        withdrawn=UNDECIDABLE,
        claimed=above(ASSOCIATION),
        statistic=MeanWithinRuns(Advantage(Ranking("root_fisher"), Ranking("trace"))),
        reason=WHY_ASSOCIATION,
        limit=2.0,
    ),
)


SEEDS: dict[ScaleName, tuple[int, ...]] = {
    "laptop": (131, 132, 133, 134, 135),
    "night": tuple(range(221, 231)),
}
"""New ones: the claims were registered after the scales' own results had been seen."""


def roots_or_trace(scale: Scale) -> Experiment:
    """Figure 1's runs with seeds of their own, both measured at every checkpoint after saturation."""
    scale = scale.with_seeds(SEEDS.get(scale.name))
    sizes, runs = scale.sizes, scale.grammar
    roots = RootFisherQuantity(sizes.trace_sentences, sizes.seed + 2)
    dots = tuple(step for step in runs.checkpoint_steps if step >= runs.saturated_from)
    quantities = (sizes.loss(), sizes.trace(), sizes.probe_of(runs.tasks[1]), roots)
    return Experiment(
        name="roots-or-trace",
        title="Does what AdamW seeks rank accuracy better than the trace?",
        question=Question.FLATNESS,
        text=(
            "Once a model has reached the distribution, SGD's drift descends the trace (Theorem 3.3). In "
            "AdamW's coordinates, the same limit descends the sum of the square roots of the Hessian's "
            "diagonal (isoloss theory adamw). If AdamW's drift is what produces flatness, that sum should "
            "fall along its runs. If the drift is what makes models better, the sum should tell the better "
            "checkpoints apart at least as well as the trace does.",
            "The question is which of the two measures to look at along runs of AdamW. Both could also fall "
            "simply because a little of the loss is still being learnt.",
        ),
        runs=grammar_runs(scale, measured_at(dots, *quantities)),
        claims=CLAIMS,
        panels=lambda table: _panels(table, scale),
        paper_numbers=(("Σ √H_ii", "none"),),
    )


def _panels(table: pl.DataFrame, scale: Scale) -> tuple[Panel, ...]:
    dots = table.filter(pl.col("step").is_not_null())
    charts = tuple(Dots(x, ACCURACY, BY_WIDTH) for x in (ROOTS, TRACE) if x.column in table.columns)
    caption = (
        "One dot per checkpoint after saturation. Horizontal bars: one standard error. "
        f"{probe_bars(scale.sizes)}Sums of different widths are over different parameters."
    )
    return (Panel("roots", "Σ √H_ii and the trace against accuracy", caption, charts, dots),)


EXPERIMENT = Design(
    roots_or_trace,
    registered="72089dd49eef8592396e8c4b754ac0977fa6e341",
    takes_a_language=True,
    picture=Picture(
        "roots", "Accuracy over the sum of the roots of the Fisher information's diagonal, and over its trace"
    ),
)
