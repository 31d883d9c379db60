"""Measurements cached in a folder, named by everything they depend on."""

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from isoloss.errors import Damaged
from isoloss.files import remove_unfinished
from isoloss.measurements.quantity import Measurement
from isoloss.results.records import Measurements
from isoloss.results.store import json_digest


class DamagedMeasurement(UserWarning):
    """A cached measurement was damaged, and has been measured again."""


@dataclass(frozen=True)
class KeptMeasurements:
    """A folder of measurements, each named by a digest of its key.

    The key holds everything the numbers depend on (weights, texts, settings) except the checkpoint's name: a
    checkpoint that is moved keeps its measurements.
    """

    folder: Path

    def get(self, key: Mapping[str, Any], checkpoint: str) -> Measurement | None:
        """The cached measurement of the key, with records renamed to the checkpoint; None if there is none.

        None, too, if it is damaged, so that it is measured again.
        """
        try:
            return self._read(key, checkpoint)
        except Damaged:
            return None

    def _read(self, key: Mapping[str, Any], checkpoint: str) -> Measurement | None:
        stored, name = Measurements(self.folder), _name(key)
        if not (found := stored.records(name)):
            return None
        records = tuple(replace(record, checkpoint=checkpoint) for record in found)
        values = {name: torch.from_numpy(each) for name, each in stored.values(name).items()}
        return Measurement(records, values)

    def measured(
        self, key: Mapping[str, Any], checkpoint: str, measure: Callable[[], Measurement]
    ) -> Measurement:
        """The cached measurement of the key, or else the result of `measure`, which is then cached.

        Warns with DamagedMeasurement where the cached one is damaged.

        >>> import tempfile
        >>> from isoloss.results.record import Record
        >>> kept = KeptMeasurements(Path(tempfile.mkdtemp()))
        >>> loss = Measurement((Record("loss", 2.0, "nats", 0.1, 9, checkpoint="a"),), {})
        >>> kept.measured({"of": "loss"}, "a", lambda: loss) == loss
        True
        >>> kept.measured({"of": "loss"}, "b", lambda: 1 / 0).records[0].checkpoint
        'b'
        """
        damage = None
        try:
            if (known := self._read(key, checkpoint)) is not None:
                return known
        except Damaged as error:
            damage = str(error).partition(";")[0]
        found = measure()
        values = {name: each.cpu() for name, each in found.values.items()}
        Measurements(self.folder).write(_name(key), found.records, values)
        if damage is not None:
            warnings.warn(f"{damage}; it was measured again", DamagedMeasurement, stacklevel=2)
        return found

    def forget_unfinished(self) -> None:
        """Delete what interrupted measurements have left behind."""
        remove_unfinished(self.folder)


def _name(key: Mapping[str, Any]) -> str:
    return json_digest(json.loads(json.dumps(key)))[:24]
