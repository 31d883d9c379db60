"""Runs of the grammar under several update rules or settings, compared by seed at one step and at one KL."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from isoloss.experiments.claims import Claim
from isoloss.experiments.planned_run import PlannedRun, measured_at
from isoloss.experiments.scale import Scale, grammar_runs
from isoloss.experiments.shared.grammar_and_hmm import Rules
from isoloss.experiments.shared.language_runs import runs_of_sizes, variants_of
from isoloss.experiments.statistics.same_loss import (
    LOSS_WINDOW,
    Comparison,
    MeanAtSameLoss,
    MeanAtSameStep,
    mean_over_runs,
    percentage_points,
    rows_at_same_loss,
)
from isoloss.measurements.quantity import Quantity
from isoloss.measurements.references import LOOKUP_TABLE
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.panels import Axis, Chart, Panel, Table
from isoloss.results.verdict import Region, below

ADAMW = "AdamW"
"""The rule that the others are held against."""

SMALL = "AdamW, small model"
"""The same rule's runs of a smaller model."""


def adamw_runs(scale: Scale, quantities: Sequence[Quantity]) -> tuple[PlannedRun, ...]:
    """The grammar's runs of the compared size, measured at every checkpoint.

    Claims use all checkpoints, because the loss at which runs are compared is found among them.
    """
    every = {"saturated_from": scale.grammar.checkpoint_steps[0]}
    return varied_runs(scale, {ADAMW: every}, quantities)


def small_runs(scale: Scale, quantities: Sequence[Quantity]) -> tuple[PlannedRun, ...]:
    """The small model to compare with the adversary's, trained like the grammar's and measured at its end."""
    small = replace(scale.grammar, architectures=(scale.compared.small,))
    return tuple(
        replace(run, name=f"small-seed-{run.seed}", labels=(("rule", SMALL),))
        for run in runs_of_sizes(small, scale.seeds, measured_at((small.steps,), *quantities))
    )


def compared_runs(scale: Scale, quantities: Sequence[Quantity], since: int = 0) -> tuple[PlannedRun, ...]:
    """AdamW's runs as long as other rules', measured at the checkpoints from step `since` on."""
    compared = scale.compared
    steps = tuple(step for step in compared.checkpoint_steps if step >= since)
    runs = replace(
        scale.grammar,
        architectures=(compared_model(scale),),
        steps=compared.steps,
        checkpoint_steps=compared.checkpoint_steps,
        saturated_from=steps[0],
        most_seeds=(),
    )
    return runs_of_sizes(runs, scale.seeds, measured_at(steps, *quantities))


def rule_runs(
    scale: Scale, rules: Rules, quantities: Sequence[Quantity], since: int = 0
) -> tuple[PlannedRun, ...]:
    """Each rule with each seed at that size, measured at the checkpoints from step `since` on."""
    variants = {name: {"update_rule": rule} for name, rule in rules}
    return variants_of(compared_runs(scale, quantities, since), variants)


def varied_runs(
    scale: Scale, variants: Mapping[str, Mapping[str, Any]], quantities: Sequence[Quantity]
) -> tuple[PlannedRun, ...]:
    """The compared size with each seed, changed as each of the named `variants` says: see `variants_of`.

    Labelled by `rule`, and measured at every checkpoint; claims are judged on those late in training.
    """
    measured = measured_at(scale.grammar.checkpoint_steps, *quantities)
    compared = [run for run in grammar_runs(scale, measured) if run.architecture == compared_model(scale)]
    return variants_of(compared, variants)


def compared_model(scale: Scale) -> PreLayerNormTransformer:
    """The size of which update rules and other variants are compared."""
    return scale.grammar.architectures[scale.compared.size]


ADVERSARIAL = "adversarial"
EXACT_LOSS = Axis("loss", "exact loss (nats)", "loss_error")

TEXT = (
    "Models with the same architecture and the same loss can differ downstream. The adversarial algorithm "
    "lowers the pre-training loss as AdamW does, while working against the downstream tasks (A.5).",
    "The runs of the adversary and of AdamW with the same seed, on the same sentences, are compared twice: "
    "as in the paper, at the same step, over the last doubling of steps and where losses lie within 0.5 % of "
    "each other; and where each first falls to the lowest KL that both reach, interpolated between "
    "checkpoints, AdamW's at an earlier step. The table shows the second comparison.",
)
REAL_TEXT = "The paper's BookCorpus rows are the experiment real-text-algorithms."


def algorithm_panels(
    table: pl.DataFrame, columns: tuple[Axis, ...], shows: tuple[str, ...]
) -> tuple[Panel, ...]:
    """Means over seeds, with small model and lookup table if measured, and the pairs seed by seed.

    The pairs are the picture of the claims that are named by `shows`.
    """
    names = [axis.column for axis in columns]
    rows = rows_at_same_loss(table, (ADVERSARIAL,), ADAMW, names)
    means = mean_over_runs(rows, ["loss", *names])
    lookup = table.filter(pl.col("rule") == LOOKUP_TABLE)
    present = [name for name in ("loss", *names) if name in lookup.columns]
    shown = ["rule", *present, *(f"{name}_error" for name in present)]
    small = table.filter(pl.col("rule") == SMALL)
    ends = mean_over_runs(small, ["loss", *names]) if small.height else means.clear()
    summary = pl.concat([means, ends, lookup.select(shown)], how="diagonal_relaxed")
    named = Axis("rule", "pre-training")
    return (
        Panel(
            "algorithms",
            "Algorithms at the same loss",
            "Mean over pre-training seeds ± one standard error over them; the small model is taken at the "
            "end of its run; for the lookup table, which has no seed, one standard error over test "
            f"sentences. {REAL_TEXT}",
            (Table((named, EXACT_LOSS, *columns, Axis("runs", "seeds"))),),
            summary,
        ),
        pairs_panel(rows, (named,), EXACT_LOSS, columns, shows=shows),
    )


def pairs_panel(
    pairs: pl.DataFrame,
    named: tuple[Axis, ...],
    loss: Axis,
    columns: tuple[Axis, ...],
    *charts: Chart,
    over: str = "sentences",
    shows: tuple[str, ...] = (),
) -> Panel:
    """Rows of `rows_at_same_loss`, which `named` tells apart, with errors that are `over` something."""
    place, same = (Axis("seed", "seed"), Axis("step", "step")), Axis("same_loss", "same loss")
    return Panel(
        "pairs",
        "The pairs of each seed, at their common loss",
        "Two rows per pair, both where they first reach their common loss; ± one standard error over "
        f"{over}, including the error of the interpolation between checkpoints. “Same loss”: whether the two "
        "agree to within 0.5 % of the loss, as far as their errors tell. Claims are judged on these pairs.",
        (Table((*named, *place, loss, same, *columns)), *charts),
        pairs,
        shows=shows,
    )


AT_ONE_STEP = (
    f"at the same steps, over the last doubling, losses within {100 * LOSS_WINDOW:g} % of each other"
)
AT_ONE_KL = "where each first falls to the lowest KL that both reach"


Pair = tuple[str, str, str, Comparison]
"""A rule, the reference, the column in which they are compared, and how."""


def at_one_step_and_one_kl(
    name: str, sentences: tuple[str, str], paper: str, measure: str, unit: str, claimed: Region, pair: Pair
) -> tuple[Claim, Claim]:
    """The claim on a pair of rules at the same step and loss, and at the same KL; a sentence each."""
    at_one_step = Claim(
        name=name,
        sentence=sentences[0],
        paper=paper,
        measure=f"mean over seeds of {measure}, {AT_ONE_STEP}",
        unit=unit,
        claimed=claimed,
        statistic=MeanAtSameStep(*pair),
    )
    at_one_kl = replace(
        at_one_step,
        name=f"{name}-at-one-kl",
        sentence=sentences[1],
        measure=f"mean over seeds of {measure}, {AT_ONE_KL}",
        statistic=MeanAtSameLoss(*pair),
    )
    return at_one_step, at_one_kl


def adversary_is_worse(task: str, column: str, paper: str) -> tuple[Claim, Claim]:
    """That the adversary's model does worse on a task: at the same step and loss, and at the same KL."""
    return at_one_step_and_one_kl(
        f"adversary-worse-on-{task.lower()}",
        (
            "At the same step and loss the adversarially trained model does worse than AdamW's on task "
            f"{task}.",
            f"At the same KL the adversarially trained model does worse than AdamW's on task {task}.",
        ),
        paper,
        "accuracy, adversarial minus AdamW",
        "percentage points",
        below(0.0),
        (ADVERSARIAL, ADAMW, column, percentage_points),
    )
