"""Experiments of runs that take a fraction of a second, whose quantity leaves a trace of each measurement."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from transformers import PreTrainedModel

from isoloss.checked_tensors import Tensors
from isoloss.experiments.claims import Claim
from isoloss.experiments.experiment import Experiment
from isoloss.experiments.planned_run import PlannedRun, ReadyLanguage
from isoloss.experiments.quantity import Columns, MeasuredAt, Subject
from isoloss.experiments.reference import PlannedReference
from isoloss.languages.dyck import dyck
from isoloss.languages.language import Language
from isoloss.measurements.record import Record
from isoloss.models.shapes import laptop_shape
from isoloss.models.transformers import PreLayerNormTransformer
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.pretraining.adamw import AdamW
from isoloss.progress import Progress
from isoloss.verdict import above

LANGUAGE = ReadyLanguage(dyck(4))


@dataclass(frozen=True)
class WeightNorm:
    """The norm of all weights, times a factor; says in a file that it was measured."""

    revision: ClassVar[int] = 1

    factor: float
    log: str

    def draw(
        self, language: Language, objective: PretrainingObjective, progress: Progress
    ) -> "WeightNormSet":
        return WeightNormSet(self)

    def restore(
        self, tensors: Tensors, language: Language, objective: PretrainingObjective
    ) -> "WeightNormSet":
        return WeightNormSet(self)

    def columns(self, records: Sequence[Record]) -> Columns:
        return {"norm": records[0].value, "norm_error": records[0].standard_error}


@dataclass(frozen=True)
class WeightNormSet:
    of: WeightNorm

    def tensors(self) -> Tensors:
        return {"factor": torch.tensor(self.of.factor)}

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        with Path(self.of.log).open("a") as log:
            log.write(f"{self.of.factor:g} at {subject.settings['step']}\n")
        norm = sum(float(weight.detach().norm()) for weight in model.parameters())
        settings = dict(subject.settings)
        return [Record("norm", self.of.factor * norm, "", 0.1, 5, None, subject.checkpoint, settings)]


@dataclass(frozen=True)
class Words:
    revision: ClassVar[int] = 1

    def measure(self, language: Language, progress: Progress) -> list[Record]:
        return [Record("words", float(len(language.vocabulary)), "", None, 1)]

    def columns(self, records: Sequence[Record]) -> Columns:
        return {"words": records[0].value}


def planned(seed: int, log: Path, *factors: float, steps: tuple[int, ...] = (2, 4)) -> PlannedRun:
    return PlannedRun(
        name=f"seed-{seed}",
        language=LANGUAGE,
        architecture=PreLayerNormTransformer(laptop_shape(16)),
        update_rule=AdamW(warm_up_steps=1),
        steps=4,
        batch_size=4,
        seed=seed,
        checkpoint_steps=(2, 4),
        saturated_from=4,
        measured=tuple(MeasuredAt(WeightNorm(factor, str(log)), steps) for factor in factors),
        labels=(("width", 16),),
    )


RISES = Claim(
    "is-large", "The norm is large.", "", "mean", "", above(0.0), lambda runs: runs[0]["norm"].mean()
)


def experiment(*runs: PlannedRun, name: str = "norms") -> Experiment:
    references = (PlannedReference("words", LANGUAGE, Words()),)
    return Experiment(name, "Norms", (), runs, lambda table: (), references, (RISES,), pilot_seeds=(900,))
