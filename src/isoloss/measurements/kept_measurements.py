"""Measurements cached in a folder, named by everything they depend on."""

import json
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from isoloss.errors import BadInput
from isoloss.files import complete_folder
from isoloss.measurements.quantity import Measurement
from isoloss.results.records import (
    read_records,
    read_sentence_values,
    write_records,
    write_sentence_values,
)
from isoloss.results.store import json_digest, read_sealed, write_sealed

RECORDS, VALUES, KEY = "records.jsonl", "records.npz", "key.json"
OLDER_VALUES = "values.npz"


class DamagedMeasurement(UserWarning):
    """A cached measurement was damaged, and has been measured again."""


@dataclass(frozen=True)
class KeptMeasurements:
    """A cache folder with one subfolder per measurement, complete or absent.

    A measurement's name is a digest of its key, which holds everything its numbers depend on (weights, texts,
    settings) except the checkpoint's name: a checkpoint that is moved keeps its measurements.
    """

    folder: Path

    def get(self, key: Mapping[str, Any], checkpoint: str) -> Measurement | None:
        """The cached measurement of the key, with records renamed to the checkpoint; None if there is none.

        None, too, if it is damaged, so that it is measured again.
        """
        path = self._path(key)
        if not path.is_dir():
            return None
        try:
            return self._read(path, key, checkpoint)
        except BadInput:
            return None

    def _read(self, path: Path, key: Mapping[str, Any], checkpoint: str) -> Measurement:
        if read_sealed(path / KEY, path.name) != _as_json(key) or not (
            found := read_records(path / RECORDS, path.name)
        ):
            raise BadInput(f"{path} is of something else")
        records = tuple(replace(record, checkpoint=checkpoint) for record in found)
        beside = path / (VALUES if (path / VALUES).exists() else OLDER_VALUES)
        values = {name: torch.from_numpy(each) for name, each in read_sentence_values(beside).items()}
        return Measurement(records, values)

    def measured(
        self, key: Mapping[str, Any], checkpoint: str, measure: Callable[[], Measurement]
    ) -> Measurement:
        """The cached measurement of the key, or else the result of `measure`, which is then cached.

        >>> import tempfile
        >>> from isoloss.results.record import Record
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
        path = self._path(key)
        if path.exists():
            warnings.warn(f"{path} was damaged; it was measured again", DamagedMeasurement, stacklevel=2)
            shutil.rmtree(path)
        with complete_folder(path) as folder:
            write_sealed(folder / KEY, _as_json(key), path.name)
            write_sentence_values(
                folder / VALUES, {name: each.cpu().numpy() for name, each in found.values.items()}
            )
            write_records(folder / RECORDS, found.records, path.name, folder / VALUES)
        return found

    def forget_unfinished(self) -> None:
        """Delete what interrupted measurements have left behind."""
        for unfinished in self.folder.glob(".*.part"):
            shutil.rmtree(unfinished)

    def _path(self, key: Mapping[str, Any]) -> Path:
        return self.folder / json_digest(_as_json(key))[:24]


def _as_json(key: Mapping[str, Any]) -> Any:
    """The value after a round trip through JSON."""
    return json.loads(json.dumps(key))
