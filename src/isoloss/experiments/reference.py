"""References for a run's numbers that need no pre-trained model, such as chance or a ceiling."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from isoloss.errors import BadInput
from isoloss.experiments.planned_run import CorpusPlan, Labels, LanguagePlan
from isoloss.measurements.accuracy import AccuracyQuantity
from isoloss.measurements.quantity import AnyQuantity, Subject
from isoloss.measurements.references import UNTRAINED, WORDS, ControlQuantity, Untrained, Words
from isoloss.models.transformers import Architecture
from isoloss.objectives.masked import MaskedObjective
from isoloss.pretraining.specification import settings_as_json
from isoloss.progress import Progress
from isoloss.results.measurements import REFERENCES_FOLDER, Measurements
from isoloss.results.record import Record

NO_MODEL: Any = None
"""References are measured of a model that they build themselves, or of none."""


@dataclass(frozen=True)
class PlannedReference:
    """A row of an experiment's table that belongs to a language rather than to a run.

    `judged` says whether claims are judged on it, too, in addition to the runs.
    """

    name: str
    language: LanguagePlan | CorpusPlan
    quantity: AnyQuantity
    labels: Labels = ()
    judged: bool = False

    @cached_property
    def digest(self) -> str:
        """The name of its measurement, among all references of a folder of results."""
        settings = [settings_as_json(self.quantity), self.language.digest]
        return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]

    def records(self, output: Path) -> list[Record]:
        """Its records; none while it has not been measured, or where its file is damaged."""
        return _stored(output).intact(self.digest)

    def damage(self, output: Path) -> str:
        """What is wrong with its file, with the consequence; empty if nothing is."""
        damage = _stored(output).damage(self.digest)
        return damage and f"{damage}; it is measured again"

    def carry_out(self, output: Path, progress: Progress) -> tuple[str, ...]:
        """Measure it once; as a job, it has nothing to report."""
        if self.records(output):
            return ()
        language = self.language.language(output, progress)
        if not isinstance(language, self.quantity.sources):
            raise BadInput(
                f"{type(self.quantity).__name__} is no reference of a {type(language).__name__}; "
                "choose another"
            )
        objective = MaskedObjective()
        examples = self.quantity.draw(language, objective, progress)
        subject = Subject("", objective, {}, language)
        measured = self.quantity.measure(NO_MODEL, examples, subject, progress)
        _stored(output).write(self.digest, measured.records)
        return ()


def _stored(output: Path) -> Measurements:
    return Measurements(output / REFERENCES_FOLDER)


def control_references(
    language: LanguagePlan,
    probe: AccuracyQuantity,
    architectures: Sequence[tuple[str, Architecture]],
    labels: Labels = (),
) -> tuple[PlannedReference, ...]:
    """A row for the words, and one for each named architecture untrained, for an experiment's references.

    Where an experiment has several panels, `labels` say to which the rows belong.
    """
    suffix = "".join(f" of {value}" for _, value in labels)
    untrained = (
        PlannedReference(
            f"{UNTRAINED} {name}{suffix}",
            language,
            ControlQuantity(probe, Untrained(each), "untrained_accuracy"),
            labels,
        )
        for name, each in architectures
    )
    words = ControlQuantity(probe, Words(), "words_accuracy")
    return (PlannedReference(f"{WORDS}{suffix}", language, words, labels), *untrained)
