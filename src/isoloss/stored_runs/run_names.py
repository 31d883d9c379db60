"""What experiments call their runs: a file for each experiment, beside the runs."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from isoloss.errors import Damaged
from isoloss.results.run_folder import Json
from isoloss.results.store import read_sealed, write_sealed

NAMES_FOLDER = "experiments"
"""Within a folder of results: for each experiment, its names for its runs."""


@dataclass(frozen=True)
class RunNames:
    """An experiment, its title, and its names for its runs by the runs' folders."""

    experiment: str
    title: str = ""
    runs: dict[str, str] = field(default_factory=dict)

    def write(self, output: Path) -> None:
        """Write the file into a folder of results. Raises IsolossError if it cannot be written."""
        content = {"name": self.experiment, "title": self.title, "runs": self.runs}
        write_sealed(names_file(self.experiment, output), content, self.experiment)

    def add_to(self, output: Path) -> None:
        """Write those names that a folder of results lacks; a damaged file is left as it is."""
        path = names_file(self.experiment, output)
        known = _read(path) if path.exists() else replace(self, runs={})
        if known is not None and not self.runs.keys() <= known.runs.keys():
            replace(known, runs=self.runs | known.runs).write(output)


def names_file(experiment: str, output: Path) -> Path:
    """Where the experiment's names are, or would be."""
    return output / NAMES_FOLDER / f"{experiment}.json"


def names_in(output: Path) -> dict[str, dict[str, str]]:
    """Experiments' names for their runs, by the runs' folders and then by experiment."""
    found: dict[str, dict[str, str]] = {}
    for each in intact_names(output):
        for run, name in each.runs.items():
            found.setdefault(run, {})[each.experiment] = name
    return found


def intact_names(output: Path) -> list[RunNames]:
    """All names in a folder of results, by experiment, without damaged files."""
    return [names for path in _name_files(output) if (names := _read(path)) is not None]


def damaged_names(outputs: Iterable[Path]) -> list[str]:
    """A sentence for each damaged file of names in these folders of results, with the consequence."""
    return [
        f"{path} is damaged: runs are shown without the names that {path.stem} gave them; to reproduce that "
        f"into {output} writes it anew, and computes nothing that is there"
        for output in dict.fromkeys(outputs)
        for path in _name_files(output)
        if _read(path) is None
    ]


def _name_files(output: Path) -> list[Path]:
    return sorted((output / NAMES_FOLDER).glob("*.json"))


def _read(path: Path) -> RunNames | None:
    """None for a damaged file."""
    try:
        content = read_sealed(path, path.stem)
    except Damaged:
        return None
    return _names_of(path.stem, content)


def names_as_json(runs: Collection[str], outputs: Iterable[Path]) -> Json:
    """Experiments' titles and their names for these runs, as plain data; the first folder's names count."""
    found: Json = {}
    for names in (each for output in outputs for each in intact_names(output)):
        if chosen := {run: name for run, name in names.runs.items() if run in runs}:
            known = found.setdefault(names.experiment, {"title": names.title, "runs": {}})
            known["runs"] = chosen | known["runs"]
    return found


def names_from_json(content: Json) -> list[RunNames]:
    """What `names_as_json` gave. Raises ValueError for anything else, such as a name that leads elsewhere."""
    found = []
    for experiment, each in content.items():
        names, file = _names_of(experiment, each), f"{experiment}.json"
        if names is None or Path(file).name != file or "\0" in file:
            raise ValueError(f"{experiment!r} names no runs")
        found.append(names)
    return found


def _names_of(experiment: str, content: object) -> RunNames | None:
    """The experiment's names for its runs; None for content of other types."""
    if not isinstance(content, dict):
        return None
    title, runs = content.get("title", ""), content.get("runs", {})
    known = isinstance(title, str) and isinstance(runs, dict)
    if not known or not all(isinstance(name, str) for name in runs.values()):
        return None
    return RunNames(experiment, title, runs)
