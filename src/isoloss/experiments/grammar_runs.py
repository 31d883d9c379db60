"""The pre-training runs on the grammar that several experiments share, and variations of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from isoloss.errors import BadInput
from isoloss.experiments.planned_run import Continued, Labels, MeasuredAt, PlannedRun, measured_at
from isoloss.experiments.scale import Scale
from isoloss.experiments.schedules import Clock
from isoloss.experiments.shared.grammar_and_hmm import Rules
from isoloss.experiments.shared.language_runs import AnyRuns, runs_of_sizes, width_of
from isoloss.measurements.quantity import Quantity
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.update_rule import UpdateRuleSettings

OTHER_SENTENCES = 10_000
"""What a branch's seed is above that of the run it continues, whose sentences it must not see again."""

PART, START, DRIFT, CONTROL, VARIANT = "drift", "start", "drift", "control", "arm"
"""The column that tells a run's part, and its values: where runs start, which drift as the law has it, which
have no noise, and which differ in what the law says nothing of."""

HEADLINE = "grammar"
"""The name of the scale's grammar when there are several languages."""

VARIED = "varied"
"""The column with the setting in which a variant differs, such as its momentum."""


def continued(origin: PlannedRun, step: int, **changes: Any) -> PlannedRun:
    """A run from another's checkpoint at `step`, on sentences that it has not seen; else changed as said."""
    seed = origin.seed + OTHER_SENTENCES
    return replace(origin, seed=seed, continues=Continued(origin, step), **changes)


def starts(
    runs: AnyRuns, widths: Sequence[int], seeds: Sequence[int], quantities: Sequence[Quantity]
) -> tuple[PlannedRun, ...]:
    """Runs of models of these widths with each seed, from whose last checkpoints others continue.

    Measured there. Raises BadInput if no model has one of the widths.
    """
    chosen = tuple(model for model in runs.architectures if width_of(model) in widths)
    if len(chosen) < len(widths):
        known = ", ".join(str(width_of(model)) for model in runs.architectures)
        raise BadInput(f"the drift starts from models of widths {tuple(widths)}, and there are {known}")
    measured = tuple(MeasuredAt(quantity, (runs.steps,)) for quantity in quantities)
    return runs_of_sizes(replace(runs, architectures=chosen), seeds, measured)


def as_start(run: PlannedRun) -> PlannedRun:
    """The run as a part of the experiment, beside those that continue it."""
    return replace(run, name=f"start-{run.name}", labels=(*run.labels, (PART, START), ("pace", START)))


@dataclass(frozen=True)
class Branch:
    """A continuation from every start: a rule with batches and steps, and the clock of its time.

    New sentences, masked words drawn as labels (also where the start had soft ones), no dropout by default,
    and weights averaged over the clock's horizon. `schedule` gives the clock and the batch; if the rule's
    rate is not the effective one, the clock's is. `variant` names it in words and `key` without spaces;
    `varied` is the setting in which it differs, if the law says nothing about that.
    """

    part: str
    schedule: Clock
    rule: UpdateRuleSettings
    steps: tuple[int, ...]
    variant: str
    key: str
    dropout: float = 0.0
    varied: str = ""

    def run(self, origin: PlannedRun, measured: tuple[MeasuredAt, ...]) -> PlannedRun:
        """The run from one start. All its checkpoints count for claims: the loss was already saturated."""
        model: Any = origin.architecture  # a dataclass, which its protocol cannot say
        labels: Labels = (
            (PART, self.part),
            ("pace", self.variant),
            ("learning_rate", self.schedule.learning_rate),
            ("batch_size", self.schedule.batch_size),
            *(((VARIED, self.varied),) if self.varied else ()),
        )
        return continued(
            origin,
            origin.steps,
            name=f"{self.part}-{self.key}-{origin.name}",
            architecture=replace(model, dropout=self.dropout),
            update_rule=self.rule,
            objective=MaskedObjective(),
            steps=self.steps[-1],
            batch_size=self.schedule.batch_size,
            checkpoint_steps=self.steps,
            saturated_from=self.steps[0],
            averaging_horizon=self.schedule.horizon,
            measured=measured,
            labels=(*origin.labels, *labels),
        )


def branched_runs(
    runs: AnyRuns,
    widths: Sequence[int],
    seeds: Sequence[int],
    branches: Sequence[Branch],
    quantities: Sequence[Quantity],
    raw: Sequence[Quantity] = (),
    language: str = HEADLINE,
) -> tuple[PlannedRun, ...]:
    """The starts and every continuation of each, on one language, with all `quantities` at every checkpoint.

    Those in `raw` are of the rule's weights, not averaged. Raises BadInput as `starts`.
    """
    origins = starts(runs, widths, seeds, quantities)

    def measured(branch: Branch) -> tuple[MeasuredAt, ...]:
        averaged = (MeasuredAt(quantity, branch.steps) for quantity in quantities)
        return (*averaged, *(MeasuredAt(quantity, branch.steps, weights="raw") for quantity in raw))

    on = [branch.run(origin, measured(branch)) for origin in origins for branch in branches]
    return tuple(of_language(run, language) for run in (*map(as_start, origins), *on))


def of_language(run: PlannedRun, language: str) -> PlannedRun:
    """The run with the name of its language, which its name includes unless it is the headline's."""
    name = run.name if language == HEADLINE else f"{language.replace(' ', '-')}-{run.name}"
    return replace(run, name=name, labels=(("language", language), *run.labels))


ADAMW = "AdamW"
"""The rule that the others are held against."""

SMALL = "AdamW, small model"
"""The same rule's runs of a smaller model."""


def grammar_runs(scale: Scale, measured: tuple[MeasuredAt, ...]) -> tuple[PlannedRun, ...]:
    """One run for each size and seed, smallest models first."""
    return runs_of_sizes(scale.grammar, scale.seeds, measured)


def adamw_runs(scale: Scale, quantities: Sequence[Quantity]) -> tuple[PlannedRun, ...]:
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


def small_runs(scale: Scale, quantities: Sequence[Quantity]) -> tuple[PlannedRun, ...]:
    """The small model to compare with the adversary's, trained like the grammar's and measured at its end."""
    small = replace(scale.grammar, architectures=(scale.compared.small,))
    measured = tuple(MeasuredAt(quantity, (small.steps,)) for quantity in quantities)
    return tuple(
        replace(run, name=f"small-seed-{run.seed}", labels=(("rule", SMALL),))
        for run in runs_of_sizes(small, scale.seeds, measured)
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
    return tuple(
        replace(run, name=f"{name}-seed-{run.seed}", update_rule=rule, labels=(("rule", name),))
        for name, rule in rules
        for run in compared_runs(scale, quantities, since)
    )


def varied_runs(
    scale: Scale, variants: Mapping[str, Mapping[str, Any]], quantities: Sequence[Quantity]
) -> tuple[PlannedRun, ...]:
    """The compared size with each seed, changed as each of the named `variants` says.

    A variant changes fields of `PlannedRun`, such as {"batch_size": 9}. Labelled by `rule`, its name, and
    measured at every checkpoint; claims are judged on those late in training.
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
