"""What a run's numbers are held against, none of which needs a pre-trained model: chance, a ceiling."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.errors import BadInput
from isoloss.experiments.planned_run import CorpusPlan, Labels, LanguagePlan
from isoloss.experiments.quantity import Columns
from isoloss.languages.language import Language
from isoloss.measurements.record import Record
from isoloss.measurements.records_file import read_records, write_records
from isoloss.pretraining.specification import settings_as_json
from isoloss.progress import Progress


@runtime_checkable
class ReferenceQuantity(Protocol):
    """A frozen dataclass: all that the numbers depend on besides the language; `revision`: see `Quantity`."""

    revision: ClassVar[int]

    def measure(self, language: Language, progress: Progress) -> list[Record]:
        """The reference's numbers."""
        ...

    def columns(self, records: Sequence[Record]) -> Columns:
        """The records as columns of the experiment's table."""
        ...


@runtime_checkable
class CorpusReference(Protocol):
    """A `ReferenceQuantity` of real text."""

    revision: ClassVar[int]

    def measure_on(self, corpus: PackedCorpus, progress: Progress) -> list[Record]:
        """The reference's numbers."""
        ...

    def columns(self, records: Sequence[Record]) -> Columns:
        """The records as columns of the experiment's table."""
        ...


@dataclass(frozen=True)
class PlannedReference:
    """A row of an experiment's table that belongs to a language rather than to a run.

    `judged` says whether claims are judged on it too, beside the runs.
    """

    name: str
    language: LanguagePlan | CorpusPlan
    quantity: ReferenceQuantity | CorpusReference
    labels: Labels = ()
    judged: bool = False

    def file(self, output: Path) -> Path:
        """Where its records live."""
        settings = [settings_as_json(self.quantity), self.language.digest]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
        return output / "references" / f"{digest}.jsonl"

    def records(self, output: Path) -> list[Record]:
        """Its records; none while it has not been measured, or where its file is damaged."""
        path = self.file(output)
        try:
            return read_records(path, path.stem)
        except BadInput:
            return []

    def carry_out(self, output: Path, progress: Progress) -> None:
        """Measure it once."""
        if not self.records(output):
            language = self.language.language(output, progress)
            path = self.file(output)
            write_records(path, self._measured(language, progress), path.stem)

    def _measured(self, language: Language | PackedCorpus, progress: Progress) -> list[Record]:
        if isinstance(language, PackedCorpus):
            if isinstance(self.quantity, CorpusReference):
                return self.quantity.measure_on(language, progress)
        elif isinstance(self.quantity, ReferenceQuantity):
            return self.quantity.measure(language, progress)
        raise BadInput(
            f"{type(self.quantity).__name__} is no reference of a {type(language).__name__}; choose another"
        )
