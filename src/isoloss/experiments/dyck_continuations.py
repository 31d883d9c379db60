"""Transformers on Dyck strings that come to one loss in several ways, which branch off one run of AdamW."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isoloss.errors import BadInput
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.planned_run import PlannedRun, continued, measured_at
from isoloss.experiments.shared.language_runs import ScaleName, laptop_transformers
from isoloss.languages.dyck import Dyck, dyck
from isoloss.measurements.quantity import Quantity
from isoloss.measurements.sample_efficiency import CountErrorQuantity
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.pretraining.adversarial import Adversarial
from isoloss.pretraining.descent import AdamW
from isoloss.pretraining.flatness_regularised import FlatnessRegularised
from isoloss.pretraining.update_rule import UpdateRuleSettings

COMPARED = 8
"""Number of strings on which the claims' heads are fitted; smaller scales may compare another number."""
PLAIN, ADVERSARY = "AdamW", "adversary"
"""The way that the others leave, and the one trained against its language's task, counting itself."""


@dataclass(frozen=True)
class Continuation:
    """A rule with which training continues, with its batch size; `name` describes it."""

    name: str
    rule: UpdateRuleSettings
    batch_size: int


@dataclass(frozen=True)
class DyckRuns:
    """AdamW to `steps`, and each of `others` continued from its checkpoint at `parting` to the same step.

    Before `parting`, the loss long stays at that of uniform brackets, where noise on the weights would keep
    it. Downstream heads are fitted on each number of `samples`; claims use `compared` of them. The first
    checkpoint is at step 1, i.e. of a practically untrained model. Raises BadInput if these settings do not
    fit together.
    """

    language: Dyck
    architecture: PreLayerNormTransformer
    seeds: tuple[int, ...]
    rule: AdamW
    batch_size: int
    parting: int
    steps: int
    others: tuple[Continuation, ...]
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

    def runs(self, quantities: Sequence[Quantity]) -> tuple[PlannedRun, ...]:
        """Each seed's runs, AdamW's first; `quantities` at every checkpoint, claims on the last only."""
        found: list[PlannedRun] = []
        for seed in self.seeds:
            trunk = self._trunk(seed, quantities)
            found += [trunk, *(self._further(trunk, each, quantities) for each in self.others)]
        return tuple(found)

    def _trunk(self, seed: int, quantities: Sequence[Quantity]) -> PlannedRun:
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
            measured=measured_at(checkpoints, *quantities),
            labels=(("way", PLAIN),),
            averaging_horizon=self.averaging_horizon,
        )

    def _further(
        self, trunk: PlannedRun, continuation: Continuation, quantities: Sequence[Quantity]
    ) -> PlannedRun:
        steps = self.steps - self.parting
        return continued(
            trunk,
            self.parting,
            name=f"{continuation.name.replace(' ', '-').lower()}-seed-{trunk.seed}",
            update_rule=continuation.rule,
            steps=steps,
            batch_size=continuation.batch_size,
            checkpoint_steps=(steps,),
            saturated_from=steps,
            measured=measured_at((steps,), *quantities),
            labels=(("way", continuation.name),),
        )


_ON = AdamW(1e-3, warm_up_steps=100)

LAPTOP = DyckRuns(
    language=dyck(10, 0.5),
    architecture=laptop_transformers((32,))[0],
    seeds=tuple(range(686, 691)),
    rule=AdamW(1e-3, warm_up_steps=200),
    batch_size=128,
    parting=1000,
    steps=3000,
    others=(
        Continuation("small batches", _ON, 16),
        Continuation("flattened", FlatnessRegularised(0.02, _ON), 128),
        Continuation(ADVERSARY, Adversarial((0.5095, 0.5115), strength=0.03, optimiser=_ON), 128),
    ),
    averaging_horizon=200,
    samples=(4, 8, 16),
    compared=COMPARED,
    draws=200,
)
"""The ways part once the brackets have been learnt; docs/pilots.md has why."""

NIGHT = replace(
    LAPTOP,
    seeds=tuple(range(801, 811)),
    parting=2000,
    steps=4000,
    others=tuple(
        replace(continuation, rule=replace(continuation.rule, optimiser=AdamW(2.5e-4, warm_up_steps=100)))
        if isinstance(continuation.rule, Adversarial)
        else continuation
        for continuation in LAPTOP.others
    ),
)
"""The ways part later, and the adversary has a quarter of the rate; docs/pilots.md has why."""

SMOKE = DyckRuns(
    language=dyck(6, 0.5),
    architecture=PreLayerNormTransformer(laptop_shape(16)),
    seeds=(3, 4),
    rule=AdamW(warm_up_steps=10),
    batch_size=16,
    parting=10,
    steps=20,
    others=(
        Continuation("flattened", FlatnessRegularised(optimiser=AdamW(warm_up_steps=5)), 16),
        Continuation(ADVERSARY, Adversarial((0.6, 0.7), examples=8, optimiser=AdamW(warm_up_steps=5)), 16),
    ),
    averaging_horizon=5,
    samples=(4, 8),
    compared=8,
    draws=4,
)

AT: dict[ScaleName, DyckRuns] = {
    "smoke": SMOKE,
    "laptop": LAPTOP,
    "night": NIGHT,
    "gpu": replace(LAPTOP, seeds=(1, 2, 3)),
    "paper": replace(LAPTOP, seeds=(1, 2, 3)),
}
