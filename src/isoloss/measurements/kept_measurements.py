"""Measurements kept in a folder under a name made of all that they depend on."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from isoloss.errors import BadInput
from isoloss.files import complete_folder
from isoloss.measurements.record import Record
from isoloss.measurements.records_file import (
    read_records,
    read_sentence_values,
    write_records,
    write_sentence_values,
)

RECORDS, VALUES, KEY = "records.jsonl", "values.npz", "key.json"


@dataclass(frozen=True)
class Measurement:
    """Records of one checkpoint, and by name the values behind them that are compared pair by pair."""

    records: tuple[Record, ...]
    values: Mapping[str, Float[Tensor, " n"]]


@dataclass(frozen=True)
class KeptMeasurements:
    """A folder with a folder a measurement, complete or absent.

    A measurement's name is a digest of its key, which holds everything its numbers depend on (weights,
    texts, settings) but what the checkpoint is called: a checkpoint that is moved keeps its numbers.
    """

    folder: Path

    def get(self, key: Mapping[str, Any], checkpoint: str) -> Measurement | None:
        """What was measured under the key, with its records in the checkpoint's name; None if nothing was.

        Raises BadInput where it is damaged.
        """
        path = self._path(key)
        if not path.is_dir():
            return None
        try:
            if json.loads((path / KEY).read_text()) != _as_json(key):
                raise ValueError("it is of something else")
        except (OSError, ValueError) as error:
            raise BadInput(f"{path} is damaged ({error}); delete it to measure again") from error
        records = tuple(replace(record, checkpoint=checkpoint) for record in read_records(path / RECORDS))
        values = {name: torch.from_numpy(each) for name, each in read_sentence_values(path / VALUES).items()}
        return Measurement(records, values)

    def measured(
        self, key: Mapping[str, Any], checkpoint: str, measure: Callable[[], Measurement]
    ) -> Measurement:
        """What was measured under the key, or what `measure` gives, which is then kept.

        >>> import tempfile
        >>> kept = KeptMeasurements(Path(tempfile.mkdtemp()))
        >>> loss = Measurement((Record("loss", 2.0, "nats", 0.1, 9, checkpoint="a"),), {})
        >>> kept.measured({"of": "loss"}, "a", lambda: loss) == loss
        True
        >>> kept.measured({"of": "loss"}, "b", lambda: 1 / 0).records[0].checkpoint
        'b'
        """
        found = self.get(key, checkpoint)
        if found is not None:
            return found
        found = measure()
        with complete_folder(self._path(key)) as folder:
            (folder / KEY).write_text(json.dumps(_as_json(key), indent=2) + "\n")
            write_records(folder / RECORDS, found.records)
            write_sentence_values(folder / VALUES, found.values)
        return found

    def forget_unfinished(self) -> None:
        """Delete what a measurement that was cut off has left."""
        for unfinished in self.folder.glob(".*.part"):
            shutil.rmtree(unfinished)

    def _path(self, key: Mapping[str, Any]) -> Path:
        canonical = json.dumps(_as_json(key), sort_keys=True, separators=(",", ":"))
        return self.folder / hashlib.sha256(canonical.encode()).hexdigest()[:24]


def _as_json(key: Mapping[str, Any]) -> Any:
    """As it is when it is read back."""
    return json.loads(json.dumps(key))
