"""Which quantity is measured on a run, when, under which name, and on what data, drawn once and cached."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from isoloss.corpora.packed_corpus import PackedCorpus
from isoloss.errors import BadInput
from isoloss.languages.language import Language
from isoloss.measurements.quantity import AnyQuantity, Columns
from isoloss.objectives.batch import PretrainingObjective
from isoloss.pretraining.specification import settings_as_json
from isoloss.progress import Progress, silent
from isoloss.results.measurements import drawn_once
from isoloss.results.record import Record

Weights = Literal["kept", "raw"]
"""Which weights of a checkpoint: what its folder holds, or beside averaged ones those of the last step."""


@dataclass(frozen=True)
class MeasuredAt:
    """A quantity, and the steps of a run at which it is measured.

    For raw weights, its columns have the prefix "raw_". A quantity that is not `needed` is shown if
    available: a run is complete without it, so that runs measured before it was introduced still count.
    """

    quantity: AnyQuantity
    steps: tuple[int, ...]
    weights: Weights = "kept"
    needed: bool = True

    @property
    def column_names(self) -> tuple[str, ...]:
        """What `columns` will be called."""
        names = (*self.quantity.column_names, "checkpoint")
        return names if self.weights == "kept" else tuple(f"raw_{name}" for name in names)

    def columns(self, records: Sequence[Record]) -> Columns:
        """The records of one checkpoint as columns of the experiment's table, and which weights these are."""
        columns = named_as_planned(self.quantity, records) | {"checkpoint": records[0].checkpoint}
        return columns if self.weights == "kept" else {f"raw_{name}": columns[name] for name in columns}


def measured_at(steps: tuple[int, ...], *quantities: AnyQuantity) -> tuple[MeasuredAt, ...]:
    """Each of the quantities at all of these steps."""
    return tuple(MeasuredAt(quantity, steps) for quantity in quantities)


def named_as_planned(quantity: AnyQuantity, records: Sequence[Record]) -> Columns:
    """The records as columns. Raises TypeError if the quantity did not announce a column's name."""
    columns = quantity.columns(records)
    if unsaid := [name for name in columns if name not in quantity.column_names]:
        raise TypeError(f"{type(quantity).__name__} calls columns {unsaid}; let its column_names say so")
    return columns


def weights_setting(weights: Weights) -> dict[str, str]:
    """How plans and records describe the weights: not at all for a folder's own weights, the usual case."""
    return {} if weights == "kept" else {"weights": weights}


def quantity_digest(quantity: AnyQuantity, language_digest: str, objective: PretrainingObjective) -> str:
    """A short hexadecimal digest: equal digests mean comparable numbers."""
    settings = [settings_as_json(quantity), language_digest, settings_as_json(objective)]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]


def silently(sentence: str) -> None:
    """Tell nobody: the default."""


def drawn(
    quantity: AnyQuantity,
    source: Language | PackedCorpus,
    source_digest: str,
    objective: PretrainingObjective,
    output: Path,
    progress: Progress = silent,
    tell: Callable[[str], None] = silently,
) -> Any:
    """The quantity's data, of its type `drawn_as`, drawn once; see `drawn_once`.

    Raises BadInput, too, if the quantity does not apply to such models.
    """
    if not isinstance(source, quantity.sources):
        raise BadInput(
            f"{type(quantity).__name__} cannot be measured on a {type(source).__name__}; choose another"
        )
    name = quantity_digest(quantity, source_digest, objective)
    return drawn_once(
        output, name, quantity.drawn_as, lambda: quantity.draw(source, objective, progress), tell
    )
