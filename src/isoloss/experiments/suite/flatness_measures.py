"""Beyond the paper: which measure of flatness ranks downstream accuracy best."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from isoloss.curvature.loss_rise import RADII
from isoloss.experiments.claims import CONFIDENCE, Claim, Question
from isoloss.experiments.compared_algorithms import ADAMW, rule_runs
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.experiment_result import judged_runs
from isoloss.experiments.figures import ACCURACY, TRACE, probe_bars
from isoloss.experiments.planned_run import PlannedRun, measured_at
from isoloss.experiments.scale import FRESH_SEEDS, Scale, grammar_runs
from isoloss.experiments.shared.claims import ASSOCIATION, WHY_ASSOCIATION
from isoloss.experiments.shared.language_runs import at_scales, rounds_at
from isoloss.experiments.statistics.rank_correlation import (
    Advantage,
    PartialRanking,
    Ranking,
    complete_rows,
    kendall_tau,
)
from isoloss.experiments.statistics.seed_bootstrap import Frames, SeedBootstrap, Statistic
from isoloss.measurements.on_sentences.gradients import GradientNormQuantity
from isoloss.measurements.on_sentences.hessian import TopEigenvalueQuantity
from isoloss.measurements.on_sentences.loss_rise import AscentSharpnessQuantity, sam_column
from isoloss.measurements.on_sentences.traces import NormalisedTraceQuantity
from isoloss.measurements.quantity import Quantity
from isoloss.panels import Axis, Categories, Colour, Dots, Panel, Table
from isoloss.results.verdict import above

OURS = "beyond the paper, which shows the trace alone"
GIVEN = ("loss", "parameters")
ALIKE = "given loss and number of parameters, over all checkpoints"
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


@dataclass(frozen=True)
class FlatnessSettings:
    """Sentences for each measure."""

    trace_sentences: int
    gradient_sentences: int
    eigenvalue_sentences: int
    ascent_sentences: int

    def competitors(self, seed: int) -> tuple[Quantity, ...]:
        """The measures of flatness to which the trace is compared."""
        return (
            NormalisedTraceQuantity(self.trace_sentences, seed),
            TopEigenvalueQuantity(self.eigenvalue_sentences, seed),
            GradientNormQuantity(self.gradient_sentences, seed),
            AscentSharpnessQuantity(self.ascent_sentences, seed),
        )


COMPETING = (
    *("normalised_trace", "wholly_normalised_trace", "top_eigenvalue", "gradient_norm"),
    *map(sam_column, RADII),
)
"""The competitors' columns in a table."""


SMOKE = FlatnessSettings(
    trace_sentences=16, gradient_sentences=16, eigenvalue_sentences=8, ascent_sentences=16
)

LAPTOP = FlatnessSettings(
    trace_sentences=500, gradient_sentences=300, eigenvalue_sentences=100, ascent_sentences=500
)
"""What a checkpoint can be given seconds for; the eigenvalue of 100 sentences has a standard error of 5 %."""

PAPER = FlatnessSettings(
    trace_sentences=10_000, gradient_sentences=10_000, eigenvalue_sentences=1_000, ascent_sentences=10_000
)
"""The paper measures no flatness but the trace, on 10,000 sentences; the eigenvalue's take twenty passes."""

AT = at_scales(SMOKE, LAPTOP, LAPTOP, LAPTOP, PAPER)


def flatness_measures(scale: Scale, flatness: FlatnessSettings) -> Experiment:
    """Every measure on the saturated checkpoints of Figure 1's runs, and of the other rules' at one size."""
    return Experiment(
        name="flatness-measures",
        gallery=4,
        title="Which measure of flatness ranks accuracy best?",
        question=Question.FLATNESS,
        text=(
            "The paper measures flatness by the trace of the Hessian. Others use the Hessian's largest "
            "eigenvalue, the rise of the loss a short distance along its gradient (SAM), the gradient's "
            "norm, or traces that are invariant to rescaling of layers. Each measure ranks the saturated "
            "checkpoints of all sizes, and of all update rules at one size, and this ranking is compared "
            "with that by downstream accuracy.",
            "A coefficient of 1 means that smaller values of the measure always go with better accuracy. "
            "Coefficients given loss and parameters compare checkpoints that are alike in both.",
        ),
        runs=_runs(scale, flatness),
        claims=CLAIMS,
        panels=lambda table: _panels(table, scale),
        paper_numbers=(("rank correlations", f"none: {OURS}"),),
    )


def _runs(scale: Scale, flatness: FlatnessSettings) -> tuple[PlannedRun, ...]:
    """The grammar's runs and the rules', labelled by rule and width, measured late in training."""
    grammar, compared, sizes = scale.grammar, scale.compared, scale.sizes
    probe, competitors = sizes.probe_of(grammar.tasks[1]), flatness.competitors(sizes.seed + 2)
    quantities: tuple[Quantity, ...] = (sizes.loss(), sizes.trace(), probe, *competitors)
    steps = tuple(step for step in grammar.checkpoint_steps if step >= grammar.saturated_from)
    width = grammar.architectures[compared.size].shape.width
    plain = grammar_runs(scale, measured_at(steps, *quantities))
    others = rule_runs(scale, compared.peers, quantities, since=compared.saturated_from)
    return (
        *(replace(run, labels=(("rule", ADAMW), *run.labels)) for run in plain),
        *(replace(run, labels=(*run.labels, ("width", width))) for run in others),
    )


def _panels(table: pl.DataFrame, scale: Scale) -> tuple[Panel, ...]:
    runs = judged_runs(table)
    of_sizes = [run for run in runs if run["rule"][0] == ADAMW]
    ranked = (
        ("sizes-and-steps", "Over sizes and steps (AdamW)", of_sizes),
        ("rules-too", "Over sizes, steps and update rules", runs),
    )
    return (
        *(ranking_panel(name, title, of, COMPETING) for name, title, of in ranked if of),
        *([_measures_panel(runs, scale)] if runs else []),
    )


def ranking_panel(name: str, title: str, runs: Sequence[pl.DataFrame], columns: Sequence[str]) -> Panel:
    """How well the trace, the columns and the loss rank the accuracy of the runs' checkpoints."""
    caption = (
        "Each interval is at 95 %, over seeds as clusters, on Fisher's scale; bars in the chart are one "
        "standard error. The loss is included for comparison."
    )
    charts = (Categories("measure", VALUE, COEFFICIENT), Table(RANKS))
    ranks = rank_correlation_table(runs, ["trace", *columns, "loss"])
    return Panel(name, title, caption, charts, ranks)


def _measures_panel(runs: Sequence[pl.DataFrame], scale: Scale) -> Panel:
    axes = [Axis(name, name.replace("_", " "), f"{name}_error", logarithmic=True) for name in COMPETING]
    return Panel(
        "measures",
        "Each measure against accuracy",
        f"Checkpoints late in training. Horizontal bars: one standard error. {probe_bars(scale.sizes)}",
        tuple(Dots(axis, ACCURACY, RULE) for axis in (TRACE, *axes)),
        pl.concat(runs, how="diagonal_relaxed"),
    )


def _trace_beats(measure: str, words: str, withdrawn: str = "") -> Claim:
    return Claim(
        name=f"trace-beats-{measure.replace('_', '-')}",
        sentence=f"Among checkpoints alike in loss and size the trace ranks accuracy better than {words}.",
        paper=OURS,
        measure=f"partial Spearman of −trace with accuracy minus that of −{words}, both {ALIKE}",
        unit="in rank correlation",
        claimed=above(ASSOCIATION),
        statistic=Advantage(PartialRanking("trace", GIVEN), PartialRanking(measure, GIVEN)),
        reason=WHY_ASSOCIATION,
        limit=2.0,
        withdrawn=withdrawn,
    )


OUT_OF_REACH = (
    "hardly any measurement could decide it: even if accuracy were exactly −log2 of the trace, it would be "
    "{earlier:g} on the traces of an earlier round, {laptop:g} (laptop) and {night:g} (night) on later ones"
)
CLAIMS = (
    Claim(
        name="trace-ranks-given-loss-and-size",
        sentence="Among all rules' checkpoints alike in loss and size, flatter ones have higher accuracy.",
        paper="the trace “strongly correlates with the downstream performance” (Section 1; no number given)",
        measure=f"partial Spearman of −trace with accuracy {ALIKE}",
        unit="in rank correlation",
        claimed=above(ASSOCIATION),
        statistic=PartialRanking("trace", GIVEN),
        reason=WHY_ASSOCIATION,
        limit=1.0,
    ),
    _trace_beats("normalised_trace", "the trace normalised by the weights' size"),
    _trace_beats(
        "top_eigenvalue",
        "the top eigenvalue of the Hessian",
        OUT_OF_REACH.format(earlier=0.057, laptop=0.03, night=0.094),
    ),
    _trace_beats("gradient_norm", "the gradient's norm"),
    _trace_beats(
        "sam_0.05",
        "SAM's sharpness at radius 0.05",
        OUT_OF_REACH.format(earlier=0.249, laptop=0.267, night=0.322),
    ),
)


def rank_correlation_table(runs: Frames, measures: Sequence[str]) -> pl.DataFrame:
    """A row for each of `measures` and each of Spearman, Kendall (tau-b), and partial Spearman given `GIVEN`.

    All use the same checkpoints, those that have every measure, the accuracy and all of `GIVEN`;
    `checkpoints` and `seeds` are their numbers. Signs are those of `Ranking`: 1 if the smallest value of the
    measure is the best. A measure that is itself among `GIVEN` is partialled on the others. `low` and `high`
    bound each number separately with `confidence` (`Estimate.interval`); to say that one measure ranks better
    than another, judge their `Advantage`.

    >>> runs = [
    ...     pl.DataFrame({"seed": s, "trace": [3.0, 2.0, 1.0 + s], "loss": [1.0, 2.0, 3.0 - s / 2],
    ...                   "parameters": 9, "accuracy": [0.1, 0.2, 0.3]}) for s in (1, 2, 3)]
    >>> table = rank_correlation_table(runs, ["trace", "loss"])
    >>> table.columns
    ['measure', 'coefficient', 'value', 'standard_error', 'low', 'high', 'confidence', 'checkpoints', 'seeds']
    >>> table.filter(measure="trace")["coefficient"].to_list()
    ['Spearman', 'Kendall', 'Spearman given loss and parameters']
    """
    wanted = list(dict.fromkeys([*measures, "accuracy", *GIVEN]))
    complete = [_complete(run, wanted) for run in runs]
    bootstrap = SeedBootstrap.of([run for run in complete if not run.is_empty()])
    checkpoints = complete_rows(bootstrap.runs, wanted).shape[1]
    rows = []
    for measure in measures:
        others = tuple(name for name in GIVEN if name != measure)
        statistics: dict[str, Statistic] = {
            "Spearman": Ranking(measure),
            "Kendall": Ranking(measure, coefficient=kendall_tau),
            f"Spearman given {' and '.join(others)}": PartialRanking(measure, others),
        }
        for name, statistic in statistics.items():
            found = bootstrap.estimate(statistic)
            low, high = found.interval(CONFIDENCE, limit=1.0)
            rows.append(
                {
                    "measure": measure,
                    "coefficient": name,
                    "value": found.value,
                    "standard_error": found.standard_error,
                    "low": low,
                    "high": high,
                    "confidence": CONFIDENCE,
                    "checkpoints": checkpoints,
                    "seeds": bootstrap.seeds,
                }
            )
    return pl.DataFrame(rows)


def _complete(run: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The run's rows with a finite number in each of the columns; none if it lacks a column."""
    if not set(columns) <= set(run.columns):
        return run.clear()
    return run.filter(pl.all_horizontal(pl.col(columns).cast(pl.Float64).is_finite()))


EXPERIMENT = Design(
    lambda scale: flatness_measures(scale, AT[scale.name]),
    registered="b860d6db0c56933dcc4595d62ae8cdc24ab2fe30",
    seeds=FRESH_SEEDS,
    earlier_seeds=rounds_at(laptop="111-115; 171-175", night="241-250"),
)
