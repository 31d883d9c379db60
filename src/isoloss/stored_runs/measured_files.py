"""The files of a folder of results: runs' measurements, and experiments' names for the runs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from isoloss.errors import BadInput
from isoloss.results.checkpoint import MEASURED_FOLDER
from isoloss.results.record import Record, Setting
from isoloss.results.records import carries_digests, read_records
from isoloss.results.store import read_json, read_sealed

FINISHED_FILE = "finished.json"
"""For runs whose records were unpacked, whose checkpoints are elsewhere: the checkpoints' own records."""

THING = ("measured_on", "weights", "task", "group", "radius", "noise")
"""The settings that distinguish the measurements of one quantity at one step."""


def measured_thing(record: Record) -> tuple[Any, ...]:
    """What a record measures, whatever the step: the quantity, and its settings in `THING`."""
    return (record.quantity, *(record.settings.get(key) for key in THING))


def measurement_name(measured_on: str, weights: Setting = None) -> str:
    """The name of a measurement's files within the folder of its step, without their suffix.

    >>> measurement_name("0123"), measurement_name("0123", "raw")
    ('0123', '0123-raw')
    """
    return measured_on if weights is None else f"{measured_on}-{weights}"


def read_measurement(path: Path, run: str, step: int) -> list[Record]:
    """The records in a measurement's file, of the run of that name at that step; none if there is no file.

    Raises BadInput if they are damaged, or were measured elsewhere.
    """
    records = read_records(path, measured_place(run, step, path.stem))
    for record in records:
        of = str(record.settings.get("measured_on")), record.settings.get("weights")
        if (record.settings.get("step"), measurement_name(*of)) != (step, path.stem):
            raise BadInput(
                f"{path} holds {measurement_name(*of)} at step {record.settings.get('step')}; delete it to "
                "measure again"
            )
    return records


def measured_place(run: str, step: int, measurement: str) -> str:
    """The name under which a measurement's records are written: its run, by its folder's name, and step."""
    return f"{run}/{step:06d}/{measurement}"


def finished_checkpoints(folder: Path) -> list[dict[str, Any]]:
    """What a run's checkpoints recorded, for unpacked runs; nothing for another, or a damaged, folder."""
    try:
        found: list[dict[str, Any]] = read_json(folder / FINISHED_FILE, folder.name)
    except BadInput:
        return []
    return found


def is_older(folder: Path) -> bool:
    """Whether a run has records from an isoloss without digests: damage to them goes unnoticed."""
    files = folder.glob(f"{MEASURED_FOLDER}/*/*.jsonl")
    return any(path.stat().st_size and not carries_digests(path) for path in files)


NAMES_FOLDER = "experiments"
"""As in `experiments.experiment_result`, which needs torch."""


def names_in(output: Path) -> dict[str, dict[str, str]]:
    """Experiments' names for their runs, by the runs' folders and then by experiment."""
    found: dict[str, dict[str, str]] = {}
    for path in _files(output):
        content = _content(path) or {}
        for run, name in content.get("runs", {}).items():
            found.setdefault(run, {})[str(content.get("name", path.stem))] = name
    return found


def damaged_names(outputs: Iterable[Path]) -> list[str]:
    """A sentence for each damaged file of names in these folders of results, with the consequence."""
    return [
        f"{path} is damaged: runs are shown without the names that {path.stem} gave them; `isoloss reproduce "
        f"{path.stem}` into {output} writes it anew, and computes nothing that is there"
        for output in dict.fromkeys(outputs)
        for path in _files(output)
        if _content(path) is None
    ]


def _files(output: Path) -> list[Path]:
    return sorted((output / NAMES_FOLDER).glob("*.json"))


def _content(path: Path) -> dict[str, Any] | None:
    try:
        content = read_sealed(path, path.stem)
    except BadInput:
        return None
    return content if isinstance(content.get("runs", {}), dict) else None
