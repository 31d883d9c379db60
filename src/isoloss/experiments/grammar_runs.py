"""The pre-training runs on the grammar that several experiments share, and variations of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from isoloss.experiments.measured_at import MeasuredAt, measured_at
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.scale import Scale
from isoloss.experiments.shared.grammar_and_hmm import Rules
from isoloss.experiments.shared.language_runs import runs_of_sizes
from isoloss.measurements.quantity import AnyQuantity
from isoloss.models.transformers import PreLayerNormTransformer

ADAMW = "AdamW"
"""The rule that the others are held against."""

SMALL = "AdamW, small model"
"""The same rule's runs of a smaller model."""


def grammar_runs(scale: Scale, measured: tuple[MeasuredAt, ...]) -> tuple[PlannedRun, ...]:
    """One run for each size and seed, smallest models first."""
    return runs_of_sizes(scale.grammar, scale.seeds, measured)


def adamw_runs(scale: Scale, quantities: Sequence[AnyQuantity]) -> tuple[PlannedRun, ...]:
    """The grammar's runs of the compared size, measured at every checkpoint.

    Claims use all checkpoints, because the loss at which runs are compared is found among them.
    """
    steps = scale.grammar.checkpoint_steps
    architecture = compared_model(scale)
    return tuple(
        replace(run, name=f"{ADAMW}-seed-{run.seed}", labels=(("rule", ADAMW),), saturated_from=steps[0])
        for run in grammar_runs(scale, measured_at(steps, *quantities))
        if run.architecture == architecture
    )


def small_runs(scale: Scale, quantities: Sequence[AnyQuantity]) -> tuple[PlannedRun, ...]:
    """The small model to compare with the adversary's, trained like the grammar's and measured at its end."""
    small = replace(scale.grammar, architectures=(scale.compared.small,))
    measured = tuple(MeasuredAt(quantity, (small.steps,)) for quantity in quantities)
    return tuple(
        replace(run, name=f"small-seed-{run.seed}", labels=(("rule", SMALL),))
        for run in runs_of_sizes(small, scale.seeds, measured)
    )


def rule_runs(
    scale: Scale, rules: Rules, quantities: Sequence[AnyQuantity], since: int = 0
) -> tuple[PlannedRun, ...]:
    """Each rule with each seed at that size, measured at the checkpoints from step `since` on."""
    grammar, compared = scale.grammar, scale.compared
    steps = tuple(step for step in compared.checkpoint_steps if step >= since)
    return tuple(
        PlannedRun(
            name=f"{name}-seed-{seed}",
            language=grammar.language,
            architecture=grammar.architectures[compared.size],
            update_rule=rule,
            steps=compared.steps,
            batch_size=grammar.batch_size,
            seed=seed,
            checkpoint_steps=compared.checkpoint_steps,
            saturated_from=steps[0],
            measured=measured_at(steps, *quantities),
            labels=(("rule", name),),
            averaging_horizon=grammar.averaging_horizon,
        )
        for name, rule in rules
        for seed in scale.seeds
    )


def varied_runs(
    scale: Scale, variants: Mapping[str, Mapping[str, Any]], quantities: Sequence[AnyQuantity]
) -> tuple[PlannedRun, ...]:
    """The compared size with each seed, changed as each of the named `variants` says, such as {"steps": 9}.

    Labelled by `rule`, the variant's name, and measured at every checkpoint; claims are judged on those after
    saturation.
    """
    measured = measured_at(scale.grammar.checkpoint_steps, *quantities)
    compared = [run for run in grammar_runs(scale, measured) if run.architecture == compared_model(scale)]
    return tuple(
        replace(run, name=f"{name.replace(' ', '-')}-seed-{run.seed}", labels=(("rule", name),), **changes)
        for name, changes in variants.items()
        for run in compared
    )


def compared_model(scale: Scale) -> PreLayerNormTransformer:
    """The size of which update rules and other variants are compared."""
    return scale.grammar.architectures[scale.compared.size]
