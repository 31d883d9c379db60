"""The runs of compared update rules, and AdamW's at the same size, which are the grammar's own."""

from collections.abc import Sequence
from dataclasses import replace

from isoloss.experiments.compared_runs import Rules
from isoloss.experiments.grammar_runs import grammar_runs
from isoloss.experiments.planned_run import PlannedRun
from isoloss.experiments.quantity import MeasuredAt, Quantity
from isoloss.experiments.scale import Scale

ADAMW = "AdamW"
"""The rule that the others are held against."""


def adamw_runs(scale: Scale, quantities: Sequence[Quantity]) -> tuple[PlannedRun, ...]:
    """The grammar's runs of the compared size, measured at every checkpoint.

    All checkpoints count for the claims: the loss at which runs are compared is found among them.
    """
    steps = scale.grammar.checkpoint_steps
    architecture = scale.grammar.architectures[scale.compared.size]
    return tuple(
        replace(run, name=f"{ADAMW}-seed-{run.seed}", labels=(("rule", ADAMW),), saturated_from=steps[0])
        for run in grammar_runs(scale, tuple(MeasuredAt(quantity, steps) for quantity in quantities))
        if run.architecture == architecture
    )


def rule_runs(
    scale: Scale, rules: Rules, quantities: Sequence[Quantity], since: int = 0
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
            measured=tuple(MeasuredAt(quantity, steps) for quantity in quantities),
            labels=(("rule", name),),
            averaging_horizon=grammar.averaging_horizon,
        )
        for name, rule in rules
        for seed in scale.seeds
    )
