"""References for a run's numbers that need no pre-trained model, such as chance or a ceiling."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.errors import BadInput, Damaged
from isoloss.experiments.planned_run import CorpusPlan, Labels, LanguagePlan
from isoloss.languages.language import Language
from isoloss.measurements.quantities.control_probes import (
    UNTRAINED,
    WORDS,
    UntrainedReference,
    WordsReference,
)
from isoloss.measurements.quantities.probe import ProbeQuantity
from isoloss.measurements.quantity import Columns
from isoloss.models.transformers import Architecture
from isoloss.pretraining.specification import settings_as_json
from isoloss.progress import Progress
from isoloss.results.record import Record
from isoloss.results.records import Measurements


@runtime_checkable
class ReferenceQuantity(Protocol):
    """A frozen dataclass of everything the numbers depend on besides the training source.

    `revision` and `sources`: see `isoloss.measurements.quantity.Quantity`.
    """

    revision: ClassVar[int]
    sources: ClassVar[tuple[type, ...]]

    # Of a type among `sources`, which type checkers do not know here.
    def measure(self, source: Any, progress: Progress) -> list[Record]:
        """The reference's numbers."""
        ...

    @property
    def column_names(self) -> tuple[str, ...]:
        """What `columns` will be called, known before anything is measured."""
        ...

    def columns(self, records: Sequence[Record]) -> Columns:
        """The records as columns of the experiment's table."""
        ...


@dataclass(frozen=True)
class PlannedReference:
    """A row of an experiment's table that belongs to a language rather than to a run.

    `judged` says whether claims are judged on it, too, in addition to the runs.
    """

    name: str
    language: LanguagePlan | CorpusPlan
    quantity: ReferenceQuantity
    labels: Labels = ()
    judged: bool = False

    def file(self, output: Path) -> Path:
        """Where its records live."""
        settings = [settings_as_json(self.quantity), self.language.digest]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
        return output / "references" / f"{digest}.jsonl"

    def records(self, output: Path) -> list[Record]:
        """Its records; none while it has not been measured, or where its file is damaged."""
        return [] if self.damage(output) else self._read(output)

    def damage(self, output: Path) -> str:
        """What is wrong with its file, with the consequence; empty if nothing is."""
        try:
            self._read(output)
        except Damaged as error:
            return f"{str(error).partition(';')[0]}; it is measured again"
        return ""

    def _read(self, output: Path) -> list[Record]:
        path = self.file(output)
        return Measurements(path.parent).records(path.stem)

    def carry_out(self, output: Path, progress: Progress) -> None:
        """Measure it once."""
        if not self.records(output):
            language = self.language.language(output, progress)
            path = self.file(output)
            Measurements(path.parent).write(path.stem, self._measured(language, progress))

    def _measured(self, source: Language | PackedCorpus, progress: Progress) -> list[Record]:
        if not isinstance(source, self.quantity.sources):
            raise BadInput(
                f"{type(self.quantity).__name__} is no reference of a {type(source).__name__}; choose another"
            )
        return self.quantity.measure(source, progress)


def control_references(
    language: LanguagePlan,
    probe: ProbeQuantity,
    architectures: Sequence[tuple[str, Architecture]],
    labels: Labels = (),
) -> tuple[PlannedReference, ...]:
    """A row for the words, and one for each named architecture untrained, for an experiment's references.

    Where an experiment has several panels, `labels` say to which the rows belong.
    """
    suffix = "".join(f" of {value}" for _, value in labels)
    untrained = (
        PlannedReference(f"{UNTRAINED} {name}{suffix}", language, UntrainedReference(probe, each), labels)
        for name, each in architectures
    )
    return (PlannedReference(f"{WORDS}{suffix}", language, WordsReference(probe), labels), *untrained)
