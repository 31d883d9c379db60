"""Experiments with runs of a fraction of a second, whose quantity records each of its measurements."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.experiments.claims import Claim
from isoloss.experiments.experiment import Experiment, PlannedReference
from isoloss.experiments.languages import ReadyLanguage
from isoloss.experiments.planned_run import MeasuredAt, PlannedRun
from isoloss.languages.dyck import dyck
from isoloss.languages.language import Language
from isoloss.measurements.quantity import Columns, Measurement, Subject
from isoloss.models.transformers import PreLayerNormTransformer, laptop_shape
from isoloss.objectives.batch import PretrainingObjective
from isoloss.pretraining.descent import AdamW
from isoloss.progress import Progress
from isoloss.results.estimate import Estimate
from isoloss.results.record import Record
from isoloss.results.verdict import above

LANGUAGE = ReadyLanguage(dyck(4))


@dataclass(frozen=True)
class Factor:
    factor: Tensor


@dataclass(frozen=True)
class WeightNorm:
    """The norm of all weights, times a factor; records in a file that it was measured."""

    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = Factor

    factor: float
    log: str

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> Factor:
        return Factor(torch.tensor(self.factor))

    def measure(
        self, model: PreTrainedModel, drawn: Factor, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        with Path(self.log).open("a") as log:
            log.write(f"{self.factor:g} at {subject.settings['step']}\n")
        norm = sum(float(weight.detach().norm()) for weight in model.parameters())
        return Measurement([subject.record("norm", Estimate(float(drawn.factor) * norm, 0.1, 5), "", None)])

    @property
    def column_names(self) -> tuple[str, ...]:
        return "norm", "norm_error"

    def columns(self, records: Sequence[Record]) -> Columns:
        return {"norm": records[0].value, "norm_error": records[0].standard_error}


@dataclass(frozen=True)
class Words:
    revision: ClassVar[int] = 1
    sources: ClassVar[tuple[type, ...]] = (Language,)
    drawn_as: ClassVar[type] = Factor

    def draw(self, source: Language, objective: PretrainingObjective, progress: Progress) -> Factor:
        return Factor(torch.tensor(float(len(source.vocabulary))))

    def measure(
        self, model: object, drawn: Factor, subject: Subject[Language], progress: Progress
    ) -> Measurement:
        return Measurement([Record("words", float(drawn.factor), "", None, 1)])

    @property
    def column_names(self) -> tuple[str, ...]:
        return ("words",)

    def columns(self, records: Sequence[Record]) -> Columns:
        return {"words": records[0].value}


RUN = PlannedRun(
    name="run",
    language=LANGUAGE,
    architecture=PreLayerNormTransformer(laptop_shape(16)),
    update_rule=AdamW(warm_up_steps=1),
    steps=4,
    batch_size=4,
    seed=900,
    checkpoint_steps=(2, 4),
    saturated_from=4,
    measured=(),
    labels=(("width", 16),),
)


def planned(seed: int, log: Path, *factors: float, steps: tuple[int, ...] = (2, 4)) -> PlannedRun:
    measured = tuple(MeasuredAt(WeightNorm(factor, str(log)), steps) for factor in factors)
    return replace(RUN, name=f"seed-{seed}", seed=seed, measured=measured)


RISES = Claim(
    "is-large", "The norm is large.", "", "mean", "", above(0.0), lambda runs: runs[0]["norm"].mean()
)


def experiment(*runs: PlannedRun, name: str = "norms") -> Experiment:
    references = (PlannedReference("words", LANGUAGE, Words()),)
    return Experiment(name, "Norms", (), runs, lambda table: (), references, (RISES,), pilot_seeds=(900,))
