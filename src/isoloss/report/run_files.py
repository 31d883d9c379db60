"""The files of a run on a site: its specification, and all its records in one."""

from contextlib import suppress
from pathlib import Path

from isoloss.errors import Damaged
from isoloss.experiments.planned_run import PlannedRun
from isoloss.files import write_atomically
from isoloss.results.checkpoint import MEASURED_FOLDER, SPECIFICATION_FILE
from isoloss.results.run_folder import read_run_folder

RECORDS_FILE = "records.jsonl"


def run_files(run: PlannedRun, output: Path) -> list[str]:
    """The names of the files that there are of a run; one that has not started has none."""
    folder = run.folder(output)
    begun, measured = (folder / SPECIFICATION_FILE).exists(), any(folder.glob(f"{MEASURED_FOLDER}/*/*.jsonl"))
    return [SPECIFICATION_FILE] * begun + [RECORDS_FILE] * measured


def run_folder(run: PlannedRun) -> str:
    """The location of the files relative to a page."""
    return f"runs/{run.digest[:16]}"


def write_run_files(run: PlannedRun, output: Path, site: Path) -> None:
    """Write a run's specification, and all its records in one file, into the site, without damaged ones.

    Raises IsolossError if it cannot be written.
    """
    described, records = read_run_folder(run.folder(output)), []
    folders = described.folder.glob(f"{MEASURED_FOLDER}/*")
    for step in sorted(int(path.name) for path in folders if path.name.isdecimal()):
        at = described.measurements(step)
        for name in at.names():
            with suppress(Damaged):
                at.records(name)
                records.append(at.file(name).read_bytes())
    if described.specification:
        content = (described.folder / SPECIFICATION_FILE).read_bytes()
        write_atomically(site / run_folder(run) / SPECIFICATION_FILE, content)
    if records:
        write_atomically(site / run_folder(run) / RECORDS_FILE, b"".join(records))
