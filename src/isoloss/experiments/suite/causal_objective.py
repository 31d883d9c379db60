"""Beyond the paper: the next word instead of a masked one, on the same sentences at the same size."""

import math
from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from isoloss.experiments.claims import Claim, Question
from isoloss.experiments.compared_algorithms import adamw_runs, compared_model, compared_runs
from isoloss.experiments.design import Design
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.figures import ACCURACY, KL, TRACE, over_steps
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.claims import later_is_better, later_is_flatter
from isoloss.experiments.shared.language_runs import rounds_at, variants_of
from isoloss.experiments.statistics.along_runs import FLATTENING, IMPROVEMENT, Among
from isoloss.experiments.statistics.same_loss import mean_over_pairs, percentage_points
from isoloss.measurements.exact_loss import ExactLossQuantity
from isoloss.measurements.quantity import Quantity
from isoloss.models.transformers import GPT2Transformer
from isoloss.objectives.next_word import NextWordObjective
from isoloss.panels import Colour, Dots, Panel
from isoloss.results.verdict import above

MASKED, NEXT_WORD = "masked word", "next word"
OBJECTIVE = Colour("objective", "objective")
OURS = "beyond the paper, whose models are all masked"


def masked_advantage(runs: Sequence[pl.DataFrame]) -> float:
    """Mean over seeds of masked minus causal accuracy at the last common step, in percentage points."""
    return mean_over_pairs(_at_last_common_step, runs, MASKED, NEXT_WORD, label="objective")


def _at_last_common_step(masked: pl.DataFrame, causal: pl.DataFrame) -> float:
    both = masked.join(causal, on="step").sort("step").tail(1)
    return percentage_points(*both.select("accuracy", "accuracy_right").row(0)) if len(both) else math.nan


CLAIMS = (
    Claim(
        name="masked-better-than-causal",
        sentence="After equally many steps the masked model does better downstream than the causal one.",
        paper=OURS,
        measure="mean over seeds of probe accuracy at the last common step, masked minus causal",
        unit="percentage points",
        claimed=above(0.0),
        statistic=masked_advantage,
    ),
    later_is_flatter(
        "causal-later-is-flatter",
        "With the next-word objective too, later checkpoints are flatter.",
        f"{OURS}; there the trace falls along a run (Figure 4)",
        Among("objective", NEXT_WORD, FLATTENING),
        "causal runs",
        Question.LATER,
    ),
    later_is_better(
        "causal-later-is-better",
        "With the next-word objective too, later checkpoints do better downstream.",
        f"{OURS}; there accuracy rises along a run (Figure 2)",
        Among("objective", NEXT_WORD, IMPROVEMENT),
        "causal runs",
        Question.LATER,
    ),
)


def causal_objective(scale: Scale) -> Experiment:
    """GPT-2's layout on next words against the grammar's masked runs of that size."""
    task = scale.grammar.tasks[1]
    loss, trace, probe = scale.sizes.loss(), scale.sizes.trace(), scale.sizes.probe_of(task)
    masked = tuple(
        replace(
            run,
            name=f"masked-seed-{run.seed}",
            labels=(("objective", MASKED),),
            saturated_from=scale.grammar.saturated_from,
        )
        for run in adamw_runs(scale, (loss, trace, probe))
    )
    next_word = ExactLossQuantity(loss.sentences, loss.seed, NextWordObjective())
    return Experiment(
        name="causal-objective",
        title="Does next-word prediction change the findings?",
        question=Question.ALGORITHM,
        text=(
            "Most language models today predict the next word. Here a causal transformer of the same shape "
            "is trained with the same update rule on the same sentences. Its loss, KL and trace are those of "
            "its own objective, all computed from the exact distribution of the next word, including the end "
            "of the sentence.",
            "Losses and traces of the two objectives measure different things and are not compared. What is "
            "compared is downstream accuracy, and whether each trace falls as training goes on.",
        ),
        runs=masked + causal_runs(scale, (next_word, trace, probe)),
        claims=CLAIMS,
        panels=_panels,
        paper_numbers=(("causal models", "none: beyond the paper"),),
    )


def causal_runs(scale: Scale, quantities: Sequence[Quantity]) -> tuple[PlannedRun, ...]:
    """One causal run per seed, of the compared size."""
    like = compared_model(scale)
    changes = {
        "architecture": GPT2Transformer(like.shape, like.dropout, like.attention, like.tokens),
        "objective": NextWordObjective(),
        "saturated_from": scale.compared.saturated_from,
    }
    return variants_of(compared_runs(scale, quantities), {NEXT_WORD: changes}, label="objective")


def _panels(table: pl.DataFrame) -> tuple[Panel, ...]:
    steps = "KL and trace are those of each run's own objective."
    dots = "Checkpoints late in training. The traces of the two objectives are of different losses."
    shows = ("causal-later-is-flatter", "causal-later-is-better")
    late = table.filter("saturated", pl.col("step").is_not_null())
    return (
        *over_steps(KL, ACCURACY, TRACE, by=OBJECTIVE, caption=steps, shows=shows)(table),
        Panel("trace", "Trace against accuracy", dots, (Dots(TRACE, ACCURACY, OBJECTIVE),), late),
    )


EXPERIMENT = Design(
    causal_objective,
    registered="443864760435bf2251e1dfb5e00d411cf83d1d99",
    earlier_seeds=rounds_at(laptop="111-115"),
    headline="causal-later-is-better",
)
