"""Transformers on Dyck strings among uniform ones: several ways to one loss, from common beginnings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isoloss.errors import BadInput
from isoloss.experiments.count_error import CountErrorQuantity
from isoloss.experiments.descent_runs import OTHER_SENTENCES
from isoloss.experiments.measured_at import MeasuredAt
from isoloss.experiments.planned_run import Continued, PlannedRun, ReadyLanguage
from isoloss.languages.dyck import Dyck
from isoloss.measurements.quantity import AnyQuantity
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.pretraining.adamw import AdamW
from isoloss.pretraining.update_rule import UpdateRuleSettings

PLAIN = "AdamW"
"""The way that the others leave."""


@dataclass(frozen=True)
class Way:
    """A rule by which training goes on, with its batch; `name` says which in words."""

    name: str
    rule: UpdateRuleSettings
    batch_size: int


@dataclass(frozen=True)
class DyckRuns:
    """AdamW to `steps`, and each of `others` on from its checkpoint of step `parting`, as many steps in all.

    Before `parting` the loss is still that of even brackets for long, which noise on weights keeps it at.
    Downstream heads are fitted on each number of `samples`; claims look at `compared` of them. The first
    checkpoint is of step 1: of a model as good as untrained. Raises BadInput where these do not fit.
    """

    language: Dyck
    architecture: PreLayerNormTransformer
    seeds: tuple[int, ...]
    rule: AdamW
    batch_size: int
    parting: int
    steps: int
    others: tuple[Way, ...]
    averaging_horizon: int
    samples: tuple[int, ...]
    compared: int
    draws: int

    def __post_init__(self) -> None:
        if not 1 < self.parting < self.steps:
            raise BadInput(f"ways must part between steps 1 and {self.steps}, not at {self.parting}")
        if self.compared not in self.samples:
            raise BadInput(f"heads on {self.compared} strings are compared, and {self.samples} are fitted")

    def counting(self, seed: int) -> CountErrorQuantity:
        """The downstream task."""
        return CountErrorQuantity(self.samples, self.draws, seed)

    def runs(self, quantities: Sequence[AnyQuantity]) -> tuple[PlannedRun, ...]:
        """Each seed's runs, AdamW's first; `quantities` of every checkpoint, claims on the last alone."""
        return tuple(
            run
            for seed in self.seeds
            for trunk in (self._trunk(seed, quantities),)
            for run in (trunk, *(self._further(trunk, way, quantities) for way in self.others))
        )

    def _trunk(self, seed: int, quantities: Sequence[AnyQuantity]) -> PlannedRun:
        checkpoints = (1, self.parting, self.steps)
        return PlannedRun(
            name=f"{PLAIN.lower()}-seed-{seed}",
            language=ReadyLanguage(self.language),
            architecture=self.architecture,
            update_rule=self.rule,
            steps=self.steps,
            batch_size=self.batch_size,
            seed=seed,
            checkpoint_steps=checkpoints,
            saturated_from=self.steps,
            measured=tuple(MeasuredAt(quantity, checkpoints) for quantity in quantities),
            labels=(("way", PLAIN),),
            averaging_horizon=self.averaging_horizon,
        )

    def _further(self, trunk: PlannedRun, way: Way, quantities: Sequence[AnyQuantity]) -> PlannedRun:
        steps = self.steps - self.parting
        return replace(
            trunk,
            name=f"{way.name.replace(' ', '-').lower()}-seed-{trunk.seed}",
            update_rule=way.rule,
            steps=steps,
            batch_size=way.batch_size,
            seed=trunk.seed + OTHER_SENTENCES,
            checkpoint_steps=(steps,),
            saturated_from=steps,
            measured=tuple(MeasuredAt(quantity, (steps,)) for quantity in quantities),
            labels=(("way", way.name),),
            continues=Continued(trunk, self.parting),
        )
