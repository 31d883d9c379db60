"""The store of measurements, each under a name that stands for all that its numbers depend on.

That of a run's checkpoint is in RUN/measured/STEP, one without a pre-trained model in references, and one
that `compare` caches beside its report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoloss.errors import Damaged
from isoloss.results.checkpoint import MEASURED_FOLDER
from isoloss.results.record import Record, Setting, Values, read_records, read_values, write_records

REFERENCES_FOLDER = "references"


@dataclass(frozen=True)
class Measurements:
    """A folder of measurements by name: the records of each in NAME.jsonl, their values in NAME.npz.

    Those of a run at a step also carry both in their digests, so that a file from elsewhere is refused.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> loss = Record("loss", 2.0, "nats", 1.0, 2)
    >>> Measurements(folder).write("of-loss", [loss], {"loss": [1.0, 3.0]})
    >>> Measurements(folder).records("of-loss") == [loss]
    True
    >>> Measurements(folder).values("of-loss")
    {'loss': array([1., 3.])}
    """

    folder: Path
    run: str = ""
    step: int | None = None

    def file(self, name: str) -> Path:
        """Where the records of that name are, or would be."""
        return self.folder / f"{name}.jsonl"

    def names(self) -> list[str]:
        """The names of all measurements here, sorted."""
        return sorted(path.stem for path in self.folder.glob("*.jsonl"))

    def records(self, name: str) -> list[Record]:
        """The records of that name; none if they are missing.

        Raises Damaged if they, or the values beside them, are not what was written under that name, or are
        of another step.
        """
        path = self.file(name)
        records = read_records(path, self._name(name))
        if not records and path.exists():
            raise Damaged(f"{path} is damaged: it holds no record; delete it to measure again")
        for record in records if self.step is not None else ():
            of = measurement_name(str(record.settings.get("measured_on")), record.settings.get("weights"))
            if (record.settings.get("step"), of) != (self.step, name):
                raise Damaged(
                    f"{path} holds {of} at step {record.settings.get('step')}; delete it to measure again"
                )
        return records

    def values(self, name: str) -> Values:
        """The values behind the records of that name; empty if there are none. Raises as `records` does."""
        return read_values(self.file(name), self._name(name))

    def damage(self, name: str) -> str:
        """What is wrong with the measurement of that name, to begin a sentence; empty if nothing is."""
        try:
            self.records(name)
        except Damaged as error:
            return str(error).partition(";")[0]
        return ""

    def intact(self, name: str) -> list[Record]:
        """The records of that name; none if they are missing or damaged, so that they are measured again."""
        try:
            return self.records(name)
        except Damaged:
            return []

    def write(self, name: str, records: Sequence[Record], values: Mapping[str, Any] | None = None) -> None:
        """Write records, and values (arrays or tensors by `value_name`) if there are any, in their place."""
        write_records(self.file(name), records, self._name(name), values)

    def _name(self, name: str) -> str:
        return name if self.step is None else f"{self.run}/{self.step:06d}/{name}"


def measurements_at(folder: Path, run: str, step: int) -> Measurements:
    """The measurements of a run in `folder` at a step; `run` names it, by the start of its plan's digest."""
    return Measurements(folder / MEASURED_FOLDER / f"{step:06d}", run, step)


def measurement_name(measured_on: str, weights: Setting = None) -> str:
    """The name of a run's measurement within the folder of its step.

    >>> measurement_name("0123"), measurement_name("0123", "raw")
    ('0123', '0123-raw')
    """
    return measured_on if weights is None else f"{measured_on}-{weights}"
