"""Models of equal knowledge that differ in flatness: flattened or sharpened from one start, then polished."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from isoloss.experiments.branches import continued
from isoloss.experiments.measured_at import measured_at
from isoloss.experiments.planned_run import LanguagePlan, PlannedRun
from isoloss.experiments.schedules import Schedule
from isoloss.experiments.statistics.polished_models import (
    BRANCH,
    CONTROL,
    FLATTENED,
    POLISHED,
    SHARPENED,
    STAGE,
    START,
)
from isoloss.measurements.quantity import AnyQuantity
from isoloss.models.transformers import GPT2Transformer, PreLayerNormTransformer
from isoloss.objectives.masked import MaskedObjective
from isoloss.objectives.next_word import NextWordObjective
from isoloss.objectives.soft_labels import SoftLabels
from isoloss.pretraining.flatness_regularised import Sharpened
from isoloss.pretraining.polishing import Polished
from isoloss.pretraining.sgd import SGD


@dataclass(frozen=True)
class EqualKnowledge:
    """How models come to know one language to within a KL divergence, each at three degrees of flatness.

    `start` trains on the exact distribution (soft labels) until KL has fallen to its divergence. From its
    last weights SGD goes on with the rate and batch of `descent` for `descent_steps`, once on words drawn,
    whose label noise flattens (Theorem 3.3), and once on soft labels, which have none; over a share
    `descent_warm_up` of them the rate rises, since at the full one a sharp start would come loose.
    `sharpened` goes the other way for `sharpened_steps`, on soft labels. From each, `polished` trains on soft
    labels until KL has fallen to one divergence below the start's. All else has batches of `batch_size`
    sentences.
    """

    name: str
    language: LanguagePlan
    architectures: tuple[PreLayerNormTransformer | GPT2Transformer, ...]
    start: Polished
    start_steps: int
    descent: Schedule
    descent_steps: int
    sharpened: Sharpened
    sharpened_steps: int
    polished: Polished
    polished_steps: int
    predicted: MaskedObjective | NextWordObjective = MaskedObjective()  # noqa: RUF009  (frozen)
    batch_size: int = 128
    descent_warm_up: float = 0.0

    def runs(
        self, seeds: Sequence[int], followed: Sequence[AnyQuantity], downstream: Sequence[AnyQuantity]
    ) -> tuple[PlannedRun, ...]:
        """For each size and seed the start, its branches, and each of them polished.

        All have `followed` measured at their ends, and the polished ones `downstream` too.
        """
        return tuple(
            run
            for architecture in self.architectures
            for seed in seeds
            for run in self._from_one_start(architecture, seed, tuple(followed), tuple(downstream))
        )

    def _from_one_start(
        self,
        architecture: PreLayerNormTransformer | GPT2Transformer,
        seed: int,
        followed: tuple[AnyQuantity, ...],
        downstream: tuple[AnyQuantity, ...],
    ) -> tuple[PlannedRun, ...]:
        width = architecture.shape.width
        key = f"{self.name.replace(' ', '-')}-width-{width}-seed-{seed}"
        start = PlannedRun(
            name=f"{START}-{key}",
            language=self.language,
            architecture=architecture,
            update_rule=self.start,
            steps=self.start_steps,
            batch_size=self.batch_size,
            seed=seed,
            checkpoint_steps=(self.start_steps,),
            saturated_from=self.start_steps,
            measured=measured_at((self.start_steps,), *followed),
            labels=(("language", self.name), ("width", width), (STAGE, START), ("branch", START)),
            objective=SoftLabels(self.predicted),
        )

        def on(
            origin: PlannedRun, stage: str, branch: str, steps: int, *quantities: AnyQuantity, **changes: Any
        ) -> PlannedRun:
            return continued(
                origin,
                origin.steps,
                name=f"{stage}-{branch.replace(' ', '-')}-{key}",
                steps=steps,
                checkpoint_steps=(steps,),
                saturated_from=steps,
                measured=measured_at((steps,), *quantities),
                labels=(("language", self.name), ("width", width), (STAGE, stage), ("branch", branch)),
                **changes,
            )

        sgd: dict[str, Any] = {
            "update_rule": SGD(self.descent.learning_rate, warm_up_share=self.descent_warm_up),
            "batch_size": self.descent.batch_size,
            "averaging_horizon": self.descent.horizon,
        }
        branches = (
            on(start, BRANCH, FLATTENED, self.descent_steps, *followed, objective=self.predicted, **sgd),
            on(start, BRANCH, CONTROL, self.descent_steps, *followed, **sgd),
            on(start, BRANCH, SHARPENED, self.sharpened_steps, *followed, update_rule=self.sharpened),
        )
        polish: dict[str, Any] = {
            "update_rule": self.polished,
            "batch_size": self.batch_size,
            "averaging_horizon": None,
            "objective": SoftLabels(self.predicted),
        }
        ends = (*followed, *downstream)
        polished = (
            on(each, POLISHED, branch, self.polished_steps, *ends, **polish)
            for each, branch in zip(branches, (FLATTENED, CONTROL, SHARPENED), strict=True)
        )
        return (start, *branches, *polished)
