"""Files that the site hands on: a run's specification and its records in one file, and numbers as JSON."""

from pathlib import Path

from markupsafe import Markup

from isoloss.experiments.planned_run import PlannedRun
from isoloss.files import write_atomically
from isoloss.pretraining.run_folder import SPECIFICATION_FILE

RECORDS_FILE = "records.jsonl"


def run_files(run: PlannedRun, output: Path) -> dict[str, bytes]:
    """The files by name, those that there are; a run that has not begun has none."""
    folder = run.folder(output)
    specification = folder / SPECIFICATION_FILE
    files = {SPECIFICATION_FILE: specification.read_bytes()} if specification.exists() else {}
    measured = sorted(folder.glob("measured/*/*.jsonl"))
    return files | ({RECORDS_FILE: b"".join(path.read_bytes() for path in measured)} if measured else {})


def run_folder(run: PlannedRun) -> str:
    """Where the files stand, seen from a page."""
    return f"runs/{run.digest[:16]}"


def write_run_files(run: PlannedRun, output: Path, site: Path) -> None:
    """Write the files of a run in `output` into the site. Raises IsolossError when it cannot be written."""
    for name, content in run_files(run, output).items():
        write_atomically(site / run_folder(run) / name, content)


def json_link(name: str) -> Markup:
    """The way to the numbers of the page of that name."""
    return Markup('<p class="downloads"><a href="files/{}.json" download>JSON, unrounded</a></p>').format(
        name
    )
