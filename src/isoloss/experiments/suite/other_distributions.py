"""An open question of the paper: do flatter models do better on distributions without a trained probe?"""

import math
from dataclasses import replace

import polars as pl

from isoloss.errors import BadInput
from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.design import Design, Picture
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import ACCURACY, BY_WIDTH, TRACE, probe_bars, trace_bars
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.planned_run import measured_at
from isoloss.experiments.scale import Scale, grammar_runs
from isoloss.experiments.shared.claims import (
    ASSOCIATION,
    UNDECIDABLE,
    WHY_ASSOCIATION,
    WHY_PAPER_WINDOW,
    premise_of_loss,
)
from isoloss.experiments.shared.language_runs import seeds_at
from isoloss.experiments.statistics.along_runs import (
    RANGE_OF_LOSS,
    MeanWithinRuns,
    Slope,
    in_halvings,
    in_points,
)
from isoloss.experiments.statistics.rank_correlation import Advantage, Ranking
from isoloss.languages.language import Language
from isoloss.languages.pcfg import PCFG
from isoloss.measurements.accuracy import AccuracyQuantity
from isoloss.measurements.quantity import Quantity
from isoloss.measurements.task_sentences import Shift, shifted
from isoloss.panels import Axis, Dots, Panel
from isoloss.results.verdict import above

SHIFTS: tuple[tuple[Shift, str], ...] = (
    ("skewed roots", "skewed_roots_accuracy"),
    ("uniform rules", "uniform_rules_accuracy"),
)
SAME = 1e-3
"""Two probabilities of a rule that differ by a smaller share are one."""
OPEN = "none: the paper tests probes on the distribution that they are trained on"


def _of_shift(shift: Shift, column: str) -> tuple[Claim, Claim]:
    key = shift.replace(" ", "-")
    return (
        Claim(
            name=f"flatter-is-better-with-{key}",
            sentence=f"As the trace halves along a run, accuracy on sentences with {shift} rises.",
            paper=OPEN,
            measure="mean over runs of the Theil-Sen slope of that accuracy per halving of the trace",
            unit="percentage points per halving of the trace",
            claimed=above(0.0),
            statistic=MeanWithinRuns(Slope(in_points(column), over=in_halvings("trace"))),
        ),
        Claim(
            name=f"trace-ranks-better-with-{key}",
            sentence=f"The trace ranks accuracy on sentences with {shift} much better than the loss does.",
            paper=OPEN,
            measure=(
                "mean over runs of Spearman(−trace, accuracy) minus Spearman(−loss, accuracy) over the run's "
                "dots"
            ),
            unit="in rank correlation",
            claimed=above(ASSOCIATION),
            statistic=MeanWithinRuns(Advantage(Ranking("trace", column), Ranking("loss", column))),
            withdrawn=UNDECIDABLE,
            reason=WHY_ASSOCIATION,
            limit=2.0,
        ),
    )


CLAIMS = (
    premise_of_loss(
        "one-loss-of-shifted",
        sentence="Within a run, late in training, the pre-training loss no longer changes.",
        measure="mean over runs of largest minus smallest exact loss of the run's dots, over their mean",
        statistic=RANGE_OF_LOSS,
        reason=WHY_PAPER_WINDOW,
    ),
    *(claim for shift, column in SHIFTS for claim in _of_shift(shift, column)),
)
"""All were fixed before any run was measured in this way."""


def _refuse_what_no_shift_changes(language: Language) -> None:
    if not isinstance(language, PCFG):
        raise BadInput(
            "other-distributions changes the probabilities of a grammar's rules, and the language is no "
            "grammar; give one, or leave that experiment out"
        )
    for shift, _ in SHIFTS:
        pairs = zip(shifted(language, shift).grammar.rules, language.grammar.rules, strict=True)
        if all(math.isclose(now.probability, before.probability, rel_tol=SAME) for now, before in pairs):
            raise BadInput(
                f"other-distributions tests probes on sentences with {shift}, which the language has "
                "already; give a grammar whose start symbol has several right-hand sides, and another symbol "
                "some that are not equally likely, or leave that experiment out"
            )


def other_distributions(scale: Scale) -> Experiment:
    """Figure 1's runs with seeds of their own, probed on the language and tested on three distributions."""
    if isinstance(plan := scale.grammar.language, ReadyLanguage):
        _refuse_what_no_shift_changes(plan.ready)
    task, sizes = scale.grammar.tasks[1], scale.sizes
    probe = sizes.probe_of(task)
    examples = sizes.examples_of(task)
    shifted = tuple(
        AccuracyQuantity(replace(examples, shift=shift), probe.head, column) for shift, column in SHIFTS
    )
    dots = tuple(step for step in scale.grammar.checkpoint_steps if step >= scale.grammar.saturated_from)
    quantities: tuple[Quantity, ...] = (sizes.loss(), sizes.trace(), probe, *shifted)
    measured = measured_at(dots, *quantities)
    return Experiment(
        name="other-distributions",
        title="Is later better on other distributions?",
        question=Question.LATER,
        text=(
            "The paper trains and tests its probes on the same distribution. Here a probe trained on the "
            "language is tested on two other distributions over the same sentences: one with each right-hand "
            "side of the start symbol (in the scales' own grammar, each root) a quarter as likely as the one "
            "before, and one with those of every other symbol equally likely. Labels are always the argmax "
            "of the language's own exact posterior, on which the probe was trained. A probe that has found "
            "what the label depends on loses nothing; a probe that relies on what merely correlates with it "
            "does.",
            "The question is whether what goes with flatness along a run belongs to the features, and "
            "carries over, or to the distribution that the probe was trained on. KL falls along a run, too: "
            "the claims do not tell its effect from that of flatness.",
        ),
        runs=grammar_runs(scale, measured),
        claims=CLAIMS,
        panels=lambda table: _panels(table, scale),
        paper_numbers=(("other distributions", "none"),),
    )


def _panels(table: pl.DataFrame, scale: Scale) -> tuple[Panel, ...]:
    axes = [
        ACCURACY,
        *(Axis(column, f"accuracy, {shift}", f"{column}_deviation") for shift, column in SHIFTS),
    ]
    charts = tuple(Dots(TRACE, axis, BY_WIDTH) for axis in axes if axis.column in table.columns)
    dots = table.filter(pl.col("step").is_not_null())
    caption = f"One dot per checkpoint late in training. {trace_bars(scale.sizes)}{probe_bars(scale.sizes)}"
    shows = ("flatter-is-better-with-skewed-roots", "flatter-is-better-with-uniform-rules")
    title = "Trace against accuracy on each distribution"
    return (Panel("trace", title, caption, charts, dots, shows=shows),)


EXPERIMENT = Design(
    other_distributions,
    registered="72089dd49eef8592396e8c4b754ac0977fa6e341",
    # New ones: the claims were registered after the scales' own results had been seen.
    seeds=seeds_at(laptop="131-135", night="221-230"),
    takes_a_language=True,
    picture=Picture("trace", "Accuracy where a probe was not trained, over the trace"),
)
