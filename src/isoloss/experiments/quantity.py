"""What crosses from an experiment to its measurements: a quantity, and what it is measured on."""

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor
from transformers import PreTrainedModel

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.errors import BadInput
from isoloss.files import write_atomically
from isoloss.languages.language import Language
from isoloss.measurements.record import Record, Setting
from isoloss.objectives.pretraining_objective import PretrainingObjective
from isoloss.pretraining.specification import settings_as_json
from isoloss.progress import Progress, silent

Columns = dict[str, Setting]
"""A quantity's part of a row of an experiment's table: its numbers, their errors, their n."""


@dataclass(frozen=True)
class Subject:
    """The checkpoint that is measured: its folder, its name in records, and how it was trained.

    Records that are means over sentences leave each sentence's value in `sentence_values`, under
    `value_name`: runs measured on one set are then compared sentence by sentence.
    """

    folder: Path
    checkpoint: str
    objective: PretrainingObjective
    settings: Mapping[str, Setting]
    seed: int
    sentence_values: dict[str, Tensor] = field(default_factory=dict)


@runtime_checkable
class MeasuringSet(Protocol):
    """Everything drawn for one quantity and one language: picklable, shared by all that is compared."""

    def measure(self, model: PreTrainedModel, subject: Subject, progress: Progress) -> list[Record]:
        """The quantity of one model, which is left as it was found, as records."""
        ...


@runtime_checkable
class Quantity(Protocol):
    """A frozen dataclass: all that a number depends on besides the language, objective and checkpoint."""

    def draw(self, language: Language, objective: PretrainingObjective, progress: Progress) -> MeasuringSet:
        """What it is measured on; a pure function of its arguments."""
        ...

    def columns(self, records: Sequence[Record]) -> Columns:
        """The records of one checkpoint as columns of the experiment's table."""
        ...


@runtime_checkable
class CorpusQuantity(Protocol):
    """A `Quantity` of models of real text, whose law nobody knows; a class may be both."""

    def draw_from(
        self, corpus: PackedCorpus, objective: PretrainingObjective, progress: Progress
    ) -> MeasuringSet:
        """What it is measured on; a pure function of its arguments."""
        ...

    def columns(self, records: Sequence[Record]) -> Columns:
        """See `Quantity`."""
        ...


AnyQuantity = Quantity | CorpusQuantity


Weights = Literal["kept", "raw"]
"""Which weights of a checkpoint: what its folder holds, or beside averaged ones those of the last step."""


@dataclass(frozen=True)
class MeasuredAt:
    """A quantity, and the steps of a run at which it is measured.

    Of raw weights its columns have the prefix "raw_".
    """

    quantity: AnyQuantity
    steps: tuple[int, ...]
    weights: Weights = "kept"

    def columns(self, records: Sequence[Record]) -> Columns:
        """The records of one checkpoint as columns of the experiment's table, and which weights these are."""
        columns = self.quantity.columns(records) | {"checkpoint": records[0].checkpoint}
        return columns if self.weights == "kept" else {f"raw_{name}": columns[name] for name in columns}


def weights_setting(weights: Weights) -> dict[str, str]:
    """What plans and records say of the weights: nothing of those that a folder keeps, as is the rule."""
    return {} if weights == "kept" else {"weights": weights}


def quantity_digest(quantity: AnyQuantity, language_digest: str, objective: PretrainingObjective) -> str:
    """A short hexadecimal name: equal names mean numbers that can be compared."""
    settings = [settings_as_json(quantity), language_digest, settings_as_json(objective)]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def drawn(
    quantity: AnyQuantity,
    language: Language | PackedCorpus,
    language_digest: str,
    objective: PretrainingObjective,
    output: Path,
    progress: Progress = silent,
) -> MeasuringSet:
    """The quantity's measuring set, drawn once and kept in `output`.

    Raises BadInput when the file there is damaged and where the quantity is none of such a language's,
    IsolossError when it cannot be written.
    """
    digest = quantity_digest(quantity, language_digest, objective)
    path = output / "measured-on" / f"{digest}.pt"
    if path.exists():
        try:
            found: MeasuringSet = torch.load(path, weights_only=False)
        except Exception as error:
            raise BadInput(f"{path} is damaged ({type(error).__name__}); delete it and run again") from error
        return found
    measuring_set = _draw(quantity, language, objective, progress)
    content = io.BytesIO()
    torch.save(measuring_set, content)
    write_atomically(path, content.getvalue())
    return measuring_set


def _draw(
    quantity: AnyQuantity,
    language: Language | PackedCorpus,
    objective: PretrainingObjective,
    progress: Progress,
) -> MeasuringSet:
    if isinstance(language, PackedCorpus):
        if isinstance(quantity, CorpusQuantity):
            return quantity.draw_from(language, objective, progress)
    elif isinstance(quantity, Quantity):
        return quantity.draw(language, objective, progress)
    raise BadInput(
        f"{type(quantity).__name__} cannot be measured on a {type(language).__name__}; choose another"
    )
