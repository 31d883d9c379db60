"""What experiments call their runs, as a folder of results keeps it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from isoloss.checked_files import read_sealed
from isoloss.errors import BadInput

NAMES_FOLDER = "experiments"
"""As in `experiments.experiment_result`, which needs torch."""


def names_in(output: Path) -> dict[str, dict[str, str]]:
    """What experiments call their runs, by the runs' folders and then by experiment."""
    found: dict[str, dict[str, str]] = {}
    for path in _files(output):
        content = _content(path) or {}
        for run, name in content.get("runs", {}).items():
            found.setdefault(run, {})[str(content.get("name", path.stem))] = name
    return found


def damaged_names(outputs: Iterable[Path]) -> list[str]:
    """A sentence for each file of names in these folders of results that is damaged, with what it costs."""
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
